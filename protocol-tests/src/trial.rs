//! Tests that need a foreign program, and what becomes of them where it cannot be had.

use crate::peers::{Failure, Unavailable};
use libtest_mimic::{Completion, Failed, Trial};

/// Why a test has not passed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Stop {
    /// Its foreign program cannot be had.
    Unavailable(Unavailable),
    /// Something is wrong.
    Failed(String),
}

impl From<Unavailable> for Stop {
    fn from(reason: Unavailable) -> Self {
        Self::Unavailable(reason)
    }
}

impl From<Failure> for Stop {
    fn from(reason: Failure) -> Self {
        Self::Failed(reason.to_string())
    }
}

impl From<String> for Stop {
    fn from(reason: String) -> Self {
        Self::Failed(reason)
    }
}

/// A test that is ignored, with the reason, where its foreign program cannot be had; with `CI` set it fails.
pub fn trial(name: String, run: impl FnOnce() -> Result<(), Stop> + Send + 'static) -> Trial {
    Trial::ignorable_test(name, move || conclude(run()))
}

/// What the harness is told of a test that ended so.
///
/// # Errors
/// If the test has failed.
pub fn conclude(ended: Result<(), Stop>) -> Result<Completion, Failed> {
    match ended {
        Ok(()) => Ok(Completion::Completed),
        Err(Stop::Unavailable(reason)) if std::env::var_os("CI").is_none() => {
            Ok(Completion::ignored_with(reason))
        }
        Err(Stop::Unavailable(reason)) => Err(Failed::from(reason.to_string())),
        Err(Stop::Failed(reason)) => Err(Failed::from(reason)),
    }
}
