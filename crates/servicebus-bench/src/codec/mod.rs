//! `servicebus-bench codec`: one frame with one Service Bus message, by our codec and by `serde_amqp`.
//!
//! Decoding goes from the frame's bytes to the transfer and the message; encoding from these to the bytes. Both codecs
//! get the same bytes, and encode into buffers that are used again. Ours keeps annotations and application properties
//! as bytes and decodes them when they are read.

mod message;
mod serde;
mod servicebus;

use std::hint::black_box;
use std::time::Duration;

use ::serde::{Deserialize, Serialize};
use anyhow::Context as _;
use bytes::{Bytes, BytesMut};

use crate::measure::{progress, thread_cpu_time};
use crate::record::Record;
use crate::table::{Table, figure, times};
use serde::SerdeAmqp;
use servicebus::Servicebus;

/// How many operations are timed at once: enough that the clock costs nothing, few enough to stay in the cache.
const BATCH: usize = 256;

/// How many batches; times are medians over them.
const BATCHES: usize = 400;

/// What is measured.
trait Codec {
    /// Takes one frame off the input and decodes it with its message. What comes out is dropped where it is: where it is
    /// moved to costs what its user makes of it.
    fn decode(&self, input: &mut BytesMut) -> anyhow::Result<()>;

    /// Encodes the transfer and the message to one frame.
    fn encode(&mut self) -> anyhow::Result<()>;
}

/// A codec in a case.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) peer: String,
    pub(crate) case: String,
    #[serde(flatten)]
    pub(crate) cost: Cost,
}

/// What one operation costs: CPU time and how often memory is allocated.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Cost {
    pub(crate) ns: f64,
    pub(crate) allocs: f64,
}

const OURS: &str = "servicebus-amqp";
const THEIRS: &str = "serde_amqp";

pub(crate) fn measure() -> anyhow::Result<Vec<Record>> {
    progress("codec");
    let mut ours = Servicebus::new(message::transfer(), message::message());
    let frame = ours.frame()?;
    let mut theirs = SerdeAmqp::new(&frame)?;
    let decode = compare(
        || decode_batch(&ours, &frame),
        || decode_batch(&theirs, &frame),
    )?;
    let encode = compare(|| encode_batch(&mut ours), || encode_batch(&mut theirs))?;
    progress("");

    let mut lines = Vec::new();
    for (case, costs) in [("decode", decode), ("encode", encode)] {
        for (peer, cost) in [OURS, THEIRS].into_iter().zip(costs) {
            lines.push(Record::Codec(Line {
                peer: peer.to_owned(),
                case: case.to_owned(),
                cost,
            }));
        }
    }
    Ok(lines)
}

/// One table: what decoding and encoding cost each codec.
pub(crate) fn tables(lines: &[&Line]) -> String {
    let mut table = Table::new(["", "ns", "× ours", "allocations"]);
    for line in lines {
        let ours = lines
            .iter()
            .find(|other| other.case == line.case && other.peer == OURS)
            .filter(|ours| ours.peer != line.peer);
        table.row([
            format!("{}, {}", line.case, line.peer),
            figure(line.cost.ns),
            ours.map_or_else(String::new, |ours| times(line.cost.ns, ours.cost.ns)),
            figure(line.cost.allocs),
        ]);
    }
    table.to_string()
}

/// Runs both side by side, so that a disturbance of the machine hits both.
fn compare(
    mut ours: impl FnMut() -> anyhow::Result<Batch>,
    mut theirs: impl FnMut() -> anyhow::Result<Batch>,
) -> anyhow::Result<[Cost; 2]> {
    let mut batches = [Vec::new(), Vec::new()];
    for _ in 0..BATCHES {
        for (batches, batch) in batches.iter_mut().zip([ours()?, theirs()?]) {
            batches.push(batch);
        }
    }
    let [ours, theirs] = batches;
    Ok([cost(ours)?, cost(theirs)?])
}

/// What [`BATCH`] operations took.
struct Batch {
    time: Duration,
    allocs: u64,
}

fn cost(mut batches: Vec<Batch>) -> anyhow::Result<Cost> {
    batches.sort_by_key(|batch| batch.time);
    let count = batches.len();
    let allocs: u64 = batches.iter().map(|batch| batch.allocs).sum();
    let median = batches.into_iter().nth(count / 2).context("no batch")?;
    Ok(Cost {
        ns: median.time.as_nanos() as f64 / BATCH as f64,
        allocs: allocs as f64 / (BATCH * count) as f64,
    })
}

fn decode_batch(codec: &impl Codec, frame: &Bytes) -> anyhow::Result<Batch> {
    // Many frames in one buffer, as a read from a socket leaves them.
    let fill = || BytesMut::from(frame.repeat(BATCH).as_slice());
    let decode_all = |input: &mut BytesMut| (0..BATCH).try_for_each(|_| codec.decode(input));
    let mut input = fill();
    let mut result = Ok(());
    let allocs = allocation_counter::measure(|| result = decode_all(&mut input));
    result?;
    // The buffer outlives what is timed: giving it back to the system is no part of decoding.
    let mut input = fill();
    let time = time(|| decode_all(&mut input))?;
    Ok(Batch {
        time,
        allocs: allocs.count_total,
    })
}

fn encode_batch(codec: &mut impl Codec) -> anyhow::Result<Batch> {
    let mut result = Ok(());
    let allocs = allocation_counter::measure(|| {
        result = (0..BATCH).try_for_each(|_| codec.encode());
    });
    result?;
    let time = time(|| (0..BATCH).try_for_each(|_| black_box(&mut *codec).encode()))?;
    Ok(Batch {
        time,
        allocs: allocs.count_total,
    })
}

/// CPU time of the thread.
fn time(run: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Duration> {
    let start = thread_cpu_time();
    let mut result = Ok(());
    allocation_counter::opt_out(|| result = run());
    let end = thread_cpu_time();
    result?;
    Ok(end.saturating_sub(start))
}
