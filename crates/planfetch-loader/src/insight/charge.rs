//! Charging a wait to its causes.

use std::time::{Duration, Instant};

use crate::insight::cause::{Cause, PerCause};
use crate::insight::ledger::Waited;
use crate::insight::trace::Trace;

/// Divides the time for which a reader waited for a batch among its causes.
///
/// The parts add up to the whole exactly, whatever the trace says.
pub(crate) fn charge(wait: Waited, trace: Option<&Trace>) -> PerCause<Duration> {
    let Waited { asked: from, given: to, another_since } = wait;
    let mut charges = PerCause::default();
    let mut now = from;
    let mut until = |end: Instant, cause: Cause| {
        let end = end.clamp(now, to.max(now));
        charges[cause] += end - now;
        now = end;
    };
    let Some(trace) = trace else {
        until(to, Cause::Plan);
        return charges;
    };
    // From here on it is the order that holds the line.
    let in_line = another_since.unwrap_or(to);
    until(trace.begun.min(in_line), Cause::Plan);
    until(trace.attempted.min(in_line), Cause::Retry);
    if let Some(last) = &trace.last {
        until(last.asked.min(in_line), if trace.inline { Cause::Decode } else { Cause::Handover });
        for &(stage, end) in &last.fetch {
            until(end.min(last.local).min(in_line), stage);
        }
        until(last.local.min(in_line), Cause::Handover);
        until(last.started.min(in_line), Cause::Workers);
        until(last.done.min(in_line), Cause::Decode);
    }
    until(trace.filled.min(in_line), Cause::Handover);
    until(trace.finished.min(in_line), Cause::Collate);
    until(trace.finished, Cause::Order);
    until(to, Cause::Handover);
    charges
}

#[cfg(test)]
mod tests {
    use planfetch_plan::SampleId;
    use proptest::prelude::*;

    use super::*;
    use crate::insight::trace::SampleTrace;

    /// A trace with these milliseconds between its moments.
    fn trace(start: Instant, gaps: &[u64]) -> Trace {
        let mut now = start;
        let mut moments = gaps.iter().map(|&gap| {
            now += Duration::from_millis(gap);
            now
        });
        let mut next = || moments.next().unwrap();
        let (begun, attempted, asked) = (next(), next(), next());
        let fetch = [Cause::Queue, Cause::Request, Cause::Body, Cause::Write].map(|stage| (stage, next())).to_vec();
        let last = SampleTrace { id: SampleId(0), asked, fetch, local: next(), started: next(), done: next() };
        Trace { begun, attempted, inline: false, last: Some(last), filled: next(), finished: next() }
    }

    fn wait(asked: Instant, given: Instant, another_since: Option<Instant>) -> Waited {
        Waited { asked, given, another_since }
    }

    #[test]
    fn a_wait_from_the_beginning_to_the_end_is_charged_stage_by_stage() {
        let start = Instant::now();
        let trace = trace(start, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        let charges = charge(wait(start, start + Duration::from_millis(90), None), Some(&trace));
        let of = |cause| charges[cause].as_millis();
        assert_eq!([of(Cause::Plan), of(Cause::Retry)], [1, 2]);
        assert_eq!([of(Cause::Queue), of(Cause::Request), of(Cause::Body), of(Cause::Write)], [4, 5, 6, 7]);
        assert_eq!([of(Cause::Workers), of(Cause::Decode), of(Cause::Collate)], [9, 10, 12]);
        // To the asking, to the news that it is local, to the end of the row, and from the end to the reader.
        assert_eq!(of(Cause::Handover), 3 + 8 + 11 + 12);
    }

    #[test]
    fn from_when_another_batch_is_ready_the_order_is_to_blame() {
        let start = Instant::now();
        let trace = trace(start, &[0, 0, 0, 0, 50, 0, 0, 0, 0, 30, 0, 0]);
        let at = |ms| start + Duration::from_millis(ms);
        let charges = charge(wait(at(10), at(81), Some(at(40))), Some(&trace));
        let of = |cause| charges[cause].as_millis();
        assert_eq!([of(Cause::Request), of(Cause::Order), of(Cause::Handover), of(Cause::Decode)], [30, 40, 1, 0]);
    }

    #[test]
    fn a_wait_is_charged_for_what_happened_during_it_alone() {
        let start = Instant::now();
        let trace = trace(start, &[0, 0, 0, 100, 100, 0, 0, 0, 0, 0, 0, 0]);
        let at = |ms| start + Duration::from_millis(ms);
        let charges = charge(wait(at(150), at(200), None), Some(&trace));
        assert_eq!(charges[Cause::Request], Duration::from_millis(50));
        assert_eq!(charges[Cause::Queue], Duration::ZERO);
    }

    proptest! {
        #[test]
        fn the_parts_add_up_to_the_whole_whatever_the_trace_says(
            gaps in prop::collection::vec(0_u64..50, 12), from in 0_u64..600, len in 0_u64..600,
            another in prop::option::of(0_u64..600), has_trace: bool, backwards: bool,
        ) {
            let start = Instant::now();
            let at = |ms| start + Duration::from_millis(ms);
            let mut trace = trace(start, &gaps);
            if backwards && let Some(last) = &mut trace.last {
                std::mem::swap(&mut last.asked, &mut last.done);
            }
            let charges = charge(wait(at(from), at(from + len), another.map(at)), has_trace.then_some(&trace));
            let sum: Duration = charges.iter().map(|(_, part)| *part).sum();
            prop_assert_eq!(sum, Duration::from_millis(len));
        }
    }
}
