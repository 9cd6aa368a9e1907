//! A response body that goes wrong.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::fault::Fault;

/// Passes a body on until its fault comes.
pub(crate) struct FaultBody {
    inner: s3s::Body,
    fault: Option<Fault>,
    /// Bytes passed on so far.
    passed: usize,
}

impl FaultBody {
    pub(crate) fn new(inner: s3s::Body, fault: Option<Fault>) -> Self {
        Self { inner, fault, passed: 0 }
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
