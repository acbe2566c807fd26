use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes, BytesMut};

/// Payloads up to this size are copied next to their frame; larger ones go out as a segment of their own.
const COPY_LIMIT: usize = 4 * 1024;

/// Bytes for the peer, in order: one vectored write.
///
/// Small frames lie in one buffer. A large payload is not copied: it is a segment between two parts of that buffer.
/// Written through [`Buf`]: [`chunks_vectored`](Buf::chunks_vectored), then [`advance`](Buf::advance).
#[derive(Debug)]
pub struct Transmit {
    buffer: BytesMut,
    /// Payloads, each with the length of `buffer` that goes before it.
    payloads: VecDeque<(usize, Bytes)>,
    /// How much of `buffer` is written.
    written: usize,
    payload_bytes: usize,
    limit: usize,
}

impl Transmit {
    /// An empty transmit that is filled to about `limit` bytes by one
    /// [`poll_transmit`](super::Connection::poll_transmit).
    pub fn with_limit(limit: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            payloads: VecDeque::new(),
            written: 0,
            payload_bytes: 0,
            limit,
        }
    }

    /// The number of bytes to write.
    pub fn len(&self) -> usize {
        self.buffer.len() - self.written + self.payload_bytes
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives the memory of an empty transmit back, for a connection that goes idle.
    pub fn release_memory(&mut self) {
        if self.is_empty() {
            *self = Self::with_limit(self.limit);
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() >= self.limit
    }

    /// Where frames are appended.
    pub(super) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Appends a part of the payload of the frame whose head was just written to the buffer.
    pub(super) fn push_payload(&mut self, payload: Bytes) {
        if payload.len() <= COPY_LIMIT {
            self.buffer.extend_from_slice(&payload);
        } else {
            self.payload_bytes += payload.len();
            self.payloads.push_back((self.buffer.len(), payload));
        }
    }
}

impl Default for Transmit {
    /// A limit of 256 KiB.
    fn default() -> Self {
        Self::with_limit(256 * 1024)
    }
}

impl Buf for Transmit {
    fn remaining(&self) -> usize {
        self.len()
    }

    fn chunk(&self) -> &[u8] {
        match self.payloads.front() {
            Some((at, payload)) if *at == self.written => payload,
            Some((at, _)) => self.buffer.get(self.written..*at).unwrap_or_default(),
            None => self.buffer.get(self.written..).unwrap_or_default(),
        }
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut count = 0;
        let mut push = |bytes: &'a [u8]| {
            if bytes.is_empty() {
                return true;
            }
            let Some(slice) = slices.get_mut(count) else {
                return false;
            };
            *slice = IoSlice::new(bytes);
            count += 1;
            true
        };
        let mut from = self.written;
        for (at, payload) in &self.payloads {
            if !push(self.buffer.get(from..*at).unwrap_or_default()) || !push(payload) {
                return count;
            }
            from = *at;
        }
        push(self.buffer.get(from..).unwrap_or_default());
        count
    }

    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.len(), "advanced past the end of a transmit");
        while count > 0 {
            let next = self.payloads.front_mut();
            let step = match next {
                Some((at, payload)) if *at == self.written => {
                    let step = count.min(payload.len());
                    payload.advance(step);
                    self.payload_bytes -= step;
                    if payload.is_empty() {
                        self.payloads.pop_front();
                    }
                    step
                }
                Some((at, _)) => {
                    let step = count.min(*at - self.written);
                    self.written += step;
                    step
                }
                None => {
                    self.written += count;
                    count
                }
            };
            count -= step;
        }
        if self.is_empty() {
            self.buffer.clear();
            self.written = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vectored(transmit: &Transmit) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); 16];
        let count = transmit.chunks_vectored(&mut slices);
        slices[..count].iter().flat_map(|s| s.to_vec()).collect()
    }

    fn filled() -> (Transmit, Vec<u8>) {
        let mut transmit = Transmit::default();
        let large = Bytes::from(vec![7; COPY_LIMIT + 1]);
        transmit.buffer().extend_from_slice(b"head");
        transmit.push_payload(large.clone());
        transmit.push_payload(large.clone());
        transmit.buffer().extend_from_slice(b"small");
        transmit.push_payload(Bytes::from_static(b"payload"));
        let mut expected = b"head".to_vec();
        expected.extend_from_slice(&large);
        expected.extend_from_slice(&large);
        expected.extend_from_slice(b"smallpayload");
        (transmit, expected)
    }

    #[test]
    fn keeps_the_order_of_buffer_and_payloads() {
        let (mut transmit, expected) = filled();
        assert_eq!(transmit.len(), expected.len());
        assert_eq!(vectored(&transmit), expected);
        assert_eq!(transmit.copy_to_bytes(expected.len()), expected);
        assert!(transmit.is_empty());
    }

    #[test]
    fn advances_by_any_step() {
        for step in [1, 3, COPY_LIMIT, COPY_LIMIT + 6, 2 * COPY_LIMIT + 8] {
            let (mut transmit, expected) = filled();
            let mut at = 0;
            while !transmit.is_empty() {
                assert_eq!(vectored(&transmit), expected[at..]);
                let step = step.min(transmit.len());
                transmit.advance(step);
                at += step;
            }
        }
    }
}
