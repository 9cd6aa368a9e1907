//! A response body that goes wrong.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Sleep;

use crate::fault::Fault;

/// Passes a body on until its fault comes.
pub(crate) struct FaultBody {
    inner: s3s::Body,
    fault: Option<Fault>,
    /// Bytes passed on so far.
    passed: usize,
    /// What a slow body has not passed on yet, and until when it waits.
    held: Bytes,
    pause: Option<Pin<Box<Sleep>>>,
}

impl FaultBody {
    pub(crate) fn new(inner: s3s::Body, fault: Option<Fault>) -> Self {
        Self { inner, fault, passed: 0, held: Bytes::new(), pause: None }
    }
}

impl FaultBody {
    fn poll_slowly(
        &mut self,
        cx: &mut Context<'_>,
        size: usize,
        pause: Duration,
    ) -> Poll<Option<Result<Frame<Bytes>, <Self as Body>::Error>>> {
        while self.held.is_empty() {
            match Pin::new(&mut self.inner).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => self.held = frame.into_data().unwrap_or_default(),
                other => return other,
            }
        }
        let sleep = self.pause.get_or_insert_with(|| Box::pin(tokio::time::sleep(pause)));
        if sleep.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.pause = None;
        let piece = self.held.split_to(size.min(self.held.len()));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }
}

impl Body for FaultBody {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let (passed, fault) = (self.passed, self.fault);
        match fault {
            Some(Fault::CutBody(at)) if at <= passed => {
                return Poll::Ready(Some(Err(io::Error::other("the body is cut here").into())));
            }
            // Nobody wakes this task again: the client has to give up.
            Some(Fault::StallBody(at)) if at <= passed => return Poll::Pending,
            Some(Fault::SlowBody(size, pause)) => return self.poll_slowly(cx, size, pause),
            _ => {}
        }
        let frame = match Pin::new(&mut self.inner).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => frame,
            Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending => return Poll::Pending,
        };
        let Ok(mut data) = frame.into_data() else { return Poll::Ready(None) };
        match fault {
            Some(Fault::CutBody(at) | Fault::StallBody(at)) => data.truncate(at - passed),
            Some(Fault::WrongByte(at)) if passed <= at && at - passed < data.len() => {
                let mut bytes = data.to_vec();
                bytes[at - passed] ^= 0xff;
                data = bytes.into();
            }
            _ => {}
        }
        self.passed += data.len();
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
