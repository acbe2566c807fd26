//! The emulator against clients that others wrote for Service Bus: the official SDKs for Python and JavaScript, unchanged,
//! and azservicebus for Rust.
//!
//! A test whose client cannot be had is ignored with the reason; with `CI` set it fails.

mod azservicebus;
mod expected;
mod javascript;
mod python;

use std::fmt;
use std::process::{Command, ExitCode};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use libtest_mimic::Arguments;
use protocol_tests::peers::run;
use protocol_tests::trial::Stop;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let python = match python::trials() {
        Ok(python) => python,
        Err(failure) => {
            eprintln!("data/azure-servicebus-python.txt: {failure}");
            return ExitCode::FAILURE;
        }
    };
    let mut trials = javascript::trials();
    trials.extend(azservicebus::trials());
    // The suite's tests count on time that passes while they sleep, so they run when all programs are built.
    trials.extend(python);
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Something that the tests of one client share, made by the first that needs it.
struct Shared<T> {
    made: OnceLock<Result<T, Stop>>,
    make: fn() -> Result<T, Stop>,
}

impl<T> Shared<T> {
    fn new(make: fn() -> Result<T, Stop>) -> Arc<Self> {
        Arc::new(Self {
            made: OnceLock::new(),
            make,
        })
    }

    fn get(&self) -> Result<&T, Stop> {
        self.made
            .get_or_init(self.make)
            .as_ref()
            .map_err(Stop::clone)
    }
}

impl<T> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// Runs a client to its end, which is to be a good one.
fn succeed(command: Command, limit: Duration) -> Result<(), Stop> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Stop::Failed(error.to_string()))?;
    runtime.block_on(async { run(command, &[], limit).await?.success() })?;
    Ok(())
}
