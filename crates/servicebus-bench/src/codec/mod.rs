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

use ::serde::Serialize;
use anyhow::Context as _;
use bytes::{Bytes, BytesMut};
use clap::Args;
use rustix::time::{ClockId, clock_gettime};

use serde::SerdeAmqp;
use servicebus::Servicebus;

/// How many operations are timed at once: enough that the clock costs nothing, few enough to stay in the cache.
const BATCH: usize = 256;

/// How many batches; times are medians over them.
const BATCHES: usize = 400;

#[derive(Args)]
pub(crate) struct Options {
    /// Print JSON lines instead of a table.
    #[arg(long)]
    json: bool,
}

/// What is measured.
trait Codec {
    type Decoded;

    /// Takes one frame off the input and decodes it with its message.
    fn decode(&self, input: &mut BytesMut) -> anyhow::Result<Self::Decoded>;

    /// Encodes the transfer and the message to one frame.
    fn encode(&mut self) -> anyhow::Result<()>;
}

/// What one operation costs.
struct Cost {
    ns: f64,
    allocs: f64,
}

#[derive(Serialize)]
struct Line<'a> {
    bench: &'a str,
    peer: &'a str,
    case: &'a str,
    ns: f64,
    allocs: f64,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let mut ours = Servicebus::new(message::transfer(), message::message());
    let frame = ours.frame()?;
    let mut theirs = SerdeAmqp::new(&frame)?;
    let decode = compare(
        || decode_batch(&ours, &frame),
        || decode_batch(&theirs, &frame),
    )?;
    let encode = compare(|| encode_batch(&mut ours), || encode_batch(&mut theirs))?;

    if !options.json {
        println!("a frame of {} bytes", frame.len());
    }
    for (case, [ours, theirs]) in [("decode", decode), ("encode", encode)] {
        if options.json {
            print_json("servicebus-amqp", case, &ours)?;
            print_json("serde_amqp", case, &theirs)?;
        } else {
            println!(
                "{case}: servicebus-amqp {:.0} ns, {:.2} allocations; serde_amqp {:.0} ns, {:.2} allocations; {:.1} times",
                ours.ns,
                ours.allocs,
                theirs.ns,
                theirs.allocs,
                theirs.ns / ours.ns
            );
        }
    }
    Ok(())
}

fn print_json(peer: &str, case: &str, cost: &Cost) -> anyhow::Result<()> {
    let line = Line {
        bench: "codec",
        peer,
        case,
        ns: cost.ns,
        allocs: cost.allocs,
    };
    println!("{}", serde_json::to_string(&line)?);
    Ok(())
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
    let decode_all = |mut input: BytesMut| {
        for _ in 0..BATCH {
            black_box(codec.decode(&mut input)?);
        }
        anyhow::Ok(())
    };
    let input = fill();
    let mut result = Ok(());
    let allocs = allocation_counter::measure(|| result = decode_all(input));
    result?;
    let input = fill();
    let time = time(|| decode_all(input))?;
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

/// CPU time of the thread, which other processes do not disturb as they do the clock on the wall.
fn time(run: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Duration> {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(
            time.tv_sec.try_into().unwrap_or_default(),
            time.tv_nsec.try_into().unwrap_or_default(),
        )
    };
    let start = now();
    let mut result = Ok(());
    allocation_counter::opt_out(|| result = run());
    let end = now();
    result?;
    Ok(end.saturating_sub(start))
}
