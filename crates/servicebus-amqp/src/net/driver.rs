use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, IoSlice};
use std::mem;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Buf as _, BytesMut};
use tokio::io::AsyncReadExt as _;
use tokio::time::{Sleep, sleep_until};

use super::endpoint::{Application, Shared, State, now};
use super::transport::ByteStream;
use crate::engine::{ConnectionError, Intake, Transmit};

/// The smallest and the largest room that a read is given, in bytes. It grows while reads fill it.
const MIN_READ: usize = 4 * 1024;
const MAX_READ: usize = 64 * 1024;

/// How many segments one vectored write takes at most.
const MAX_SEGMENTS: usize = 64;

/// How many rounds of reading and writing the task makes before it lets others run. Few, so that what was read is used
/// while it is in the processor's cache, and its memory is free again when the next round needs some.
const MAX_ROUNDS: usize = 8;

/// How many full buffers are kept to be used again once the frames in them are dropped.
const MAX_RETIRED: usize = 8;

/// What is read at once of large frames, beyond the one that has begun.
const LARGE_READ: usize = 256 * 1024;

/// How long there has to be no traffic before buffers are given back; a driver that is woken for nothing in between keeps
/// them.
const IDLE_TIME: Duration = Duration::from_secs(1);

/// How long the last output of a closed connection may take.
const FLUSH_TIME: Duration = Duration::from_secs(1);

/// The task of one connection: moves bytes between the stream and the engine, and keeps its timers.
///
/// Reading never waits for writing: while the peer does not take what we wrote, what it sends is still handled, so two
/// busy peers cannot block one another.
pub(super) struct Driver<A: Application, S: ByteStream> {
    shared: Arc<Shared<A>>,
    stream: S,
    max_frame_size: usize,
    input: BytesMut,
    retired: VecDeque<BytesMut>,
    read_size: usize,
    output: Transmit,
    needs_flush: bool,
    timer: Option<Pin<Box<Sleep>>>,
    last_traffic: Instant,
    reading: Reading,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    Open,
    Ended,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// The engine is done; the rest of its output is written, then the stream is shut down.
    Flushing {
        deadline: Instant,
    },
    Done,
}

enum Progress {
    Made,
    Pending,
}

impl<A: Application, S: ByteStream> Driver<A, S> {
    pub(super) fn new(shared: Arc<Shared<A>>, stream: S, max_frame_size: u32) -> Self {
        Self {
            shared,
            stream,
            max_frame_size: max_frame_size as usize,
            input: BytesMut::new(),
            retired: VecDeque::new(),
            read_size: MIN_READ,
            output: Transmit::default(),
            needs_flush: false,
            timer: None,
            last_traffic: now(),
            reading: Reading::Open,
            phase: Phase::Open,
        }
    }
}

impl<A: Application, S: ByteStream> Driver<A, S> {
    /// Reads what there is into the input, once.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Progress {
        if self.reading == Reading::Ended || self.phase != Phase::Open {
            return Progress::Pending;
        }
        self.make_room();
        let room = self.input.capacity() - self.input.len();
        match pin!(self.stream.read_buf(&mut self.input)).poll(cx) {
            Poll::Pending => Progress::Pending,
            Poll::Ready(Ok(0)) => self.end_reading(ConnectionError::Lost),
            Poll::Ready(Ok(count)) => {
                if count == room {
                    self.read_size = (self.read_size * 2).min(MAX_READ);
                } else if count < self.read_size / 4 {
                    self.read_size = (self.read_size / 2).max(MIN_READ);
                }
                Progress::Made
            }
            Poll::Ready(Err(error)) => self.end_reading(ConnectionError::Io(Arc::new(error))),
        }
    }

    fn end_reading(&mut self, error: ConnectionError) -> Progress {
        self.reading = Reading::Ended;
        self.shared.lock().connection.handle_disconnect(error);
        Progress::Made
    }

    /// Hands input and time to the engine, its events to the application, and takes its output.
    fn pump(&mut self, cx: &mut Context<'_>, now: Instant) {
        let mut state = self.shared.lock();
        state.handle_timeout(now);
        loop {
            let intake = state.connection.handle_input(now, &mut self.input);
            state.deliver_events(now);
            if intake == Intake::Drained {
                break;
            }
        }
        {
            let State {
                connection,
                application,
            } = &mut *state;
            application.poll_inbox(cx, connection, now);
        }
        if self.output.is_empty() {
            state.connection.poll_transmit(now, &mut self.output);
            // Transmitting a pre-settled delivery makes an event.
            state.deliver_events(now);
        }
        if self.phase == Phase::Open && state.connection.is_closed() {
            self.phase = Phase::Flushing {
                deadline: now + FLUSH_TIME,
            };
        }
    }

    /// Writes and flushes what there is.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> io::Result<Progress> {
        let mut progress = Progress::Pending;
        while self.output.has_remaining() {
            let mut segments = [IoSlice::new(&[]); MAX_SEGMENTS];
            let count = self.output.chunks_vectored(&mut segments);
            let segments = segments.get(..count).unwrap_or_default();
            match Pin::new(&mut self.stream).poll_write_vectored(cx, segments) {
                Poll::Pending => return Ok(progress),
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(count)) => {
                    self.output.advance(count);
                    self.needs_flush = true;
                    progress = Progress::Made;
                }
                Poll::Ready(Err(error)) => return Err(error),
            }
        }
        if self.needs_flush && Pin::new(&mut self.stream).poll_flush(cx)?.is_ready() {
            self.needs_flush = false;
        }
        Ok(progress)
    }

    /// Says whether the timer has fired; it is armed for the next deadline otherwise.
    fn poll_timer(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let due = match self.phase {
            Phase::Open => self.shared.lock().poll_timeout(),
            Phase::Flushing { deadline } => Some(deadline),
            Phase::Done => None,
        };
        let Some(due) = due else {
            return false;
        };
        if due <= now {
            return true;
        }
        let due = tokio::time::Instant::from_std(due);
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
        // A timer that fires too early costs less than setting it anew with every frame.
        if due < timer.deadline() || timer.is_elapsed() {
            timer.as_mut().reset(due);
        }
        if timer.as_mut().poll(cx).is_pending() {
            return false;
        }
        if timer.deadline() < due {
            timer.as_mut().reset(due);
            return timer.as_mut().poll(cx).is_ready();
        }
        true
    }

    /// Ends the stream once the engine's last output is written, or its time is up.
    fn poll_shutdown(&mut self, cx: &mut Context<'_>, now: Instant) {
        let Phase::Flushing { deadline } = self.phase else {
            return;
        };
        let written = self.output.is_empty() && !self.needs_flush;
        if deadline <= now || written && Pin::new(&mut self.stream).poll_shutdown(cx).is_ready() {
            self.phase = Phase::Done;
        }
    }
}

impl<A: Application, S: ByteStream> Future for Driver<A, S> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        this.shared.wake().register(cx.waker());
        for _ in 0..MAX_ROUNDS {
            let now = now();
            let read = this.poll_read(cx);
            this.pump(cx, now);
            let written = match this.poll_write(cx) {
                Ok(progress) => progress,
                Err(error) => {
                    this.output = Transmit::default();
                    this.needs_flush = false;
                    this.end_reading(ConnectionError::Io(Arc::new(error)))
                }
            };
            this.poll_shutdown(cx, now);
            if this.phase == Phase::Done {
                return Poll::Ready(());
            }
            if matches!((read, written), (Progress::Pending, Progress::Pending))
                && !this.poll_timer(cx, now)
            {
                if now.saturating_duration_since(this.last_traffic) >= IDLE_TIME {
                    this.shared.lock().connection.release_memory();
                    this.release_memory();
                }
                return Poll::Pending;
            }
            this.last_traffic = now;
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<A: Application, S: ByteStream> Driver<A, S> {
    /// Makes room for the next read.
    ///
    /// The frames of a buffer are slices of it, so it is used again only when all of them are dropped. Fresh memory costs
    /// more than reading into it: an old buffer is preferred to a new one.
    fn make_room(&mut self) {
        let frame = frame_size(&self.input, self.max_frame_size);
        let missing = frame.saturating_sub(self.input.len());
        let spare = self.input.capacity() - self.input.len();
        if spare >= missing.max(self.read_size / 4) {
            return;
        }
        let room = missing
            .max(self.read_size)
            .max(frame.saturating_mul(4).min(LARGE_READ));
        if self.input.try_reclaim(room) {
            return;
        }
        let wanted = self.input.len() + room;
        let free = self
            .retired
            .iter_mut()
            .position(|buffer| buffer.try_reclaim(wanted));
        let mut next = free
            .and_then(|index| self.retired.remove(index))
            .unwrap_or_else(|| BytesMut::with_capacity(wanted));
        next.extend_from_slice(&self.input);
        let mut full = mem::replace(&mut self.input, next);
        full.clear();
        if self.retired.len() == MAX_RETIRED {
            self.retired.pop_front();
        }
        self.retired.push_back(full);
    }

    /// Gives the buffers of an idle connection back.
    fn release_memory(&mut self) {
        if self.input.is_empty() {
            self.input = BytesMut::new();
            self.retired = VecDeque::new();
            self.read_size = MIN_READ;
        }
        self.output.release_memory();
    }
}

impl<A: Application, S: ByteStream> Drop for Driver<A, S> {
    /// A runtime that ends drops its tasks wherever they are. Those who wait on the connection, perhaps in another runtime,
    /// learn of it.
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.connection.handle_disconnect(ConnectionError::Lost);
        state.deliver_events(self.last_traffic);
    }
}

/// The size of the frame at the front of the input; 0 when it is not known or not to be believed.
fn frame_size(input: &BytesMut, max_frame_size: usize) -> usize {
    let Some(&size) = input.first_chunk::<4>() else {
        return 0;
    };
    let size = u32::from_be_bytes(size) as usize;
    if size <= max_frame_size { size } else { 0 }
}
