//! The floor: the same bytes over the same loopback connection, without a protocol.
//!
//! With one message in flight the receiver answers each body with a byte; else the bytes only flow.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use anyhow::ensure;

use super::{Run, print};
use crate::measure::Meter;

const READ_BUFFER: usize = 256 * 1024;

async fn connect(run: &Run) -> anyhow::Result<TcpStream> {
    let stream = run.stream().await?.into_std()?;
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// How many times the receiver answers, and after how many bytes each time.
fn answers(run: &Run) -> (u64, u64) {
    let body = run.body as u64;
    if run.window == 1 {
        (run.count, body)
    } else {
        (1, body.saturating_mul(run.count))
    }
}

pub(super) async fn send(run: &Run) -> anyhow::Result<()> {
    let mut stream = connect(run).await?;
    let body = run.body_bytes();
    let (answers, bytes) = answers(run);
    let mut answer = [0];
    let meter = Meter::start();
    for _ in 0..answers {
        for _ in 0..bytes / run.body as u64 {
            stream.write_all(&body)?;
        }
        stream.read_exact(&mut answer)?;
    }
    print(&meter.stop(run.count)?)
}

pub(super) async fn receive(run: &Run) -> anyhow::Result<()> {
    let mut stream = connect(run).await?;
    let mut buffer = vec![0; READ_BUFFER];
    let (answers, bytes) = answers(run);
    let mut meter = None;
    for _ in 0..answers {
        let mut missing = bytes;
        while missing > 0 {
            let read = stream.read(&mut buffer)?;
            ensure!(read > 0, "the sender closed");
            meter.get_or_insert_with(Meter::start);
            missing = missing.saturating_sub(read as u64);
        }
        stream.write_all(&[1])?;
    }
    if let Some(meter) = meter {
        print(&meter.stop(run.count)?)?;
    }
    Ok(())
}
