//! Whether many permutations look as if each were as likely as any other.
//!
//! Four chi-square tests, each told as the number of standard deviations from what a uniform shuffle gives:
//!
//! - *position*: how often each entry comes at each position, both in up to 50 groups;
//! - *pairs*: which entry follows which, by their difference modulo the length, in up to 100 groups
//!   (of ten entries: the first two, all 90 of them);
//! - *cycles*: the number of cycles, whose distribution is that of a sum of independent coins with chances 1, 1/2, 1/3, …
//!   (W. Feller, "An Introduction to Probability Theory and Its Applications", volume 1, chapter X.6);
//! - *first cycle*: the length of the cycle through entry 0, which is uniform, in up to 50 groups.

/// Counts permutations of one length.
pub(crate) struct Tally {
    len: usize,
    num: u64,
    groups: usize,
    position: Vec<u64>,
    pairs: Vec<u64>,
    cycles: Vec<u64>,
    first_cycle: Vec<u64>,
}

impl Tally {
    pub(crate) fn new(len: usize) -> Self {
        let groups = len.min(50);
        assert!(10 <= len && len.is_multiple_of(groups), "lengths are 10, or whole multiples of 50");
        let pairs = if len == 10 { 100 } else { len.min(100) };
        let [position, pairs, cycles, first_cycle] = [groups * groups, pairs, len + 1, groups].map(|len| vec![0; len]);
        Self { len, num: 0, groups, position, pairs, cycles, first_cycle }
    }

    pub(crate) fn add(&mut self, permutation: &[u64]) {
        let len = self.len;
        assert_eq!(permutation.len(), len);
        self.num += 1;
        let group = |entry: usize| entry * self.groups / len;
        for (position, &entry) in permutation.iter().enumerate() {
            self.position[group(position) * self.groups + group(entry as usize)] += 1;
        }
        if len == 10 {
            self.pairs[(permutation[0] * 10 + permutation[1]) as usize] += 1;
        } else {
            for pair in permutation.windows(2) {
                let difference = (pair[1] as usize + len - pair[0] as usize) % len;
                let group = (difference - 1) * self.pairs.len() / (len - 1);
                self.pairs[group] += 1;
            }
        }
        let mut seen = vec![false; len];
        let mut cycles = 0;
        for start in 0..len {
            let (mut at, mut steps) = (start, 0);
            while !std::mem::replace(&mut seen[at], true) {
                at = permutation[at] as usize;
                steps += 1;
            }
            if 0 < steps {
                cycles += 1;
            }
            if start == 0 {
                self.first_cycle[group(steps - 1)] += 1;
            }
        }
        self.cycles[cycles] += 1;
    }

    /// Returns each test's name and standard deviations.
    pub(crate) fn scores(&self) -> [(&'static str, f64); 4] {
        let (len, num) = (self.len as f64, self.num as f64);
        // The rows and columns of the table are as full as they must be, which makes its cells vary less.
        let cell = num * len / (self.groups * self.groups) as f64;
        let position = statistic(self.position.iter().map(|&count| (count, cell))) * (len - 1.0) / len;
        let freedom = ((self.groups - 1) * (self.groups - 1)) as f64;

        let pairs = if self.len == 10 {
            // An entry never follows itself.
            let cells = self.pairs.iter().enumerate().filter(|(index, _)| index / 10 != index % 10);
            score(statistic(cells.map(|(_, &count)| (count, num / 90.0))), 89.0)
        } else {
            let mut differences = vec![0_u64; self.pairs.len()];
            (0..self.len - 1).for_each(|index| differences[index * self.pairs.len() / (self.len - 1)] += 1);
            // Of `len` neighbours, the last and the first are none, so each difference comes once a permutation.
            let cells = self.pairs.iter().zip(&differences).map(|(&count, &size)| (count, num * size as f64));
            let cells: Vec<_> = cells.filter(|&(_, mean)| 0.0 < mean).collect();
            let freedom = cells.len() as f64 - 1.0;
            score(statistic(cells.into_iter()), freedom)
        };

        let mut chances = vec![0.0; self.len + 1];
        chances[0] = 1.0;
        for coin in 1..=self.len {
            let chance = 1.0 / coin as f64;
            for heads in (1..=coin).rev() {
                chances[heads] = chances[heads] * (1.0 - chance) + chances[heads - 1] * chance;
            }
            chances[0] *= 1.0 - chance;
        }
        // Rare numbers of cycles are pooled with their neighbours until ten are expected.
        let mut cells: Vec<(u64, f64)> = Vec::new();
        let mut pool = (0, 0.0);
        for (&count, chance) in self.cycles.iter().zip(chances) {
            pool = (pool.0 + count, pool.1 + num * chance);
            if 10.0 <= pool.1 {
                cells.push(std::mem::replace(&mut pool, (0, 0.0)));
            }
        }
        if let Some(last) = cells.last_mut() {
            *last = (last.0 + pool.0, last.1 + pool.1);
        }
        let cycles_freedom = cells.len() as f64 - 1.0;

        let first = statistic(self.first_cycle.iter().map(|&count| (count, num / self.groups as f64)));
        [
            ("position", score(position, freedom)),
            ("pairs", pairs),
            ("cycles", score(statistic(cells.into_iter()), cycles_freedom)),
            ("first cycle", score(first, self.groups as f64 - 1.0)),
        ]
    }
}

fn statistic(cells: impl Iterator<Item = (u64, f64)>) -> f64 {
    cells.map(|(count, mean)| (count as f64 - mean).powi(2) / mean).sum()
}

/// Returns the standard deviations of a chi-square number: E. B. Wilson and M. M. Hilferty's approximation (1931).
fn score(chi_square: f64, freedom: f64) -> f64 {
    let spread = 2.0 / (9.0 * freedom);
    ((chi_square / freedom).cbrt() - (1.0 - spread)) / spread.sqrt()
}
