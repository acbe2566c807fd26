//! The byte stream of one connection, with what a test may do to it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::log::{Direction, FrameLog, Splitter};

/// A stream that can be cut, silenced and slowed down.
pub(crate) struct Line<S> {
    stream: S,
    control: Arc<LineControl>,
    log: Option<Logged>,
}

struct Logged {
    log: Arc<FrameLog>,
    connection: u64,
    incoming: Splitter,
    outgoing: Splitter,
}

/// The other end of a [`Line`]: what the emulator's user orders.
#[derive(Debug, Default)]
pub(crate) struct LineControl {
    state: AtomicU8,
    /// The most bytes of one write; 0 means any number.
    chop: AtomicUsize,
    reader: AtomicWaker,
}

const WHOLE: u8 = 0;
const SILENT: u8 = 1;
const CUT: u8 = 2;

impl LineControl {
    /// Ends the stream at once.
    pub(crate) fn cut(&self) {
        self.state.store(CUT, Ordering::Release);
        self.reader.wake();
    }

    /// Lets nothing through any more, in either direction.
    pub(crate) fn silence(&self) {
        self.state.store(SILENT, Ordering::Release);
        self.reader.wake();
    }

    pub(crate) fn chop(&self, bytes: usize) {
        self.chop.store(bytes, Ordering::Release);
    }
}

impl<S> Line<S> {
    pub(crate) fn new(
        stream: S,
        control: Arc<LineControl>,
        connection: u64,
        log: Option<Arc<FrameLog>>,
    ) -> Self {
        Self {
            stream,
            control,
            log: log.map(|log| Logged {
                log,
                connection,
                incoming: Splitter::default(),
                outgoing: Splitter::default(),
            }),
        }
    }

    fn state(&self) -> u8 {
        self.control.state.load(Ordering::Acquire)
    }

    fn log_written(&mut self, parts: &[&[u8]], mut count: usize) {
        let Some(Logged {
            log,
            connection,
            outgoing,
            ..
        }) = &mut self.log
        else {
            return;
        };
        for part in parts {
            let taken = part.get(..count.min(part.len())).unwrap_or_default();
            count -= taken.len();
            outgoing.feed(taken, |frame| log.write(*connection, Direction::Out, frame));
        }
    }
}

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "the line was cut on order")
}

impl<S: AsyncRead + Unpin> AsyncRead for Line<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.control.reader.register(cx.waker());
        match self.state() {
            CUT => return Poll::Ready(Err(cut())),
            SILENT => return Poll::Pending,
            _ => {}
        }
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if let Some(Logged {
            log,
            connection,
            incoming,
            ..
        }) = &mut self.log
        {
            let read = buf.filled().get(before..).unwrap_or_default();
            incoming.feed(read, |frame| log.write(*connection, Direction::In, frame));
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Line<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.state() {
            CUT => return Poll::Ready(Err(cut())),
            SILENT => return Poll::Ready(Ok(buf.len())),
            _ => {}
        }
        let buf = match self.control.chop.load(Ordering::Acquire) {
            0 => buf,
            most => buf.get(..most).unwrap_or(buf),
        };
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        if let Poll::Ready(Ok(count)) = polled {
            self.log_written(&[buf], count);
        }
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let whole = self.state() == WHOLE && self.control.chop.load(Ordering::Acquire) == 0;
        if !whole {
            let first = bufs.iter().find(|buf| !buf.is_empty());
            return self.poll_write(cx, first.map_or(&[], |buf| &**buf));
        }
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        if let Poll::Ready(Ok(count)) = polled
            && self.log.is_some()
        {
            let parts: Vec<&[u8]> = bufs.iter().map(|buf| &**buf).collect();
            self.log_written(&parts, count);
        }
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.state() {
            WHOLE => Pin::new(&mut self.stream).poll_flush(cx),
            _ => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.state() {
            WHOLE => Pin::new(&mut self.stream).poll_shutdown(cx),
            _ => Poll::Ready(Ok(())),
        }
    }
}
