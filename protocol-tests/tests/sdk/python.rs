//! The Python SDK's own live tests, unchanged, with what is expected of each in `data/azure-servicebus-python.txt`.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Completion, Trial};
use protocol_tests::emulator::{EmulatorProgram, Listen};
use protocol_tests::peers::{AzureServiceBusTests, run};
use protocol_tests::trial::{Stop, conclude, trial};
use serde::Deserialize;

use crate::Shared;
use crate::expected::{self, Expected};

/// For the whole suite. Its longest test alone sleeps for more than five minutes.
const LIMIT: Duration = Duration::from_secs(20 * 60);
/// The tests mostly sleep, so there are many more processes than processors.
const PROCESSES: &str = "24";
/// For tests that are repeated.
const FEW_PROCESSES: &str = "4";
/// If more tests fail than that, none is repeated.
const MOST_REPEATED: usize = 8;

const EXPECTED: &str = include_str!("../../data/azure-servicebus-python.txt");

/// How a test ended; written by the plugin.
#[derive(Debug, Deserialize)]
struct Ended {
    outcome: Outcome,
    detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    Passed,
    Failed,
    Skipped,
}

type Results = BTreeMap<String, Ended>;

pub(crate) fn trials() -> Result<Vec<Trial>, String> {
    let tests = expected::parse(EXPECTED)?;
    let names: Vec<String> = tests.keys().cloned().collect();
    let results = Shared::new(run_suite);
    let mut trials = vec![every_test_is_listed(Arc::clone(&results), names)];
    trials.extend(tests.into_iter().map(|(name, expected)| {
        let results = Arc::clone(&results);
        let title = format!("python::{name}");
        Trial::ignorable_test(title, move || {
            let results = match results.get() {
                Ok(results) => results,
                Err(stop) => return conclude(Err(stop)),
            };
            match (results.get(&name), &expected) {
                (Some(ended), Expected::Race(reason)) if ended.outcome == Outcome::Failed => {
                    Ok(Completion::ignored_with(reason.clone()))
                }
                (ended, expected) => conclude(compare(ended, expected)),
            }
        })
    }));
    Ok(trials)
}

fn every_test_is_listed(results: Arc<Shared<Results>>, names: Vec<String>) -> Trial {
    trial("python::every_test_is_listed".into(), move || {
        let unlisted: Vec<&String> = results
            .get()?
            .keys()
            .filter(|name| !names.contains(name))
            .collect();
        if unlisted.is_empty() {
            Ok(())
        } else {
            Err(format!("not in the list: {unlisted:#?}").into())
        }
    })
}

fn compare(ended: Option<&Ended>, expected: &Expected) -> Result<(), Stop> {
    let Some(Ended { outcome, detail }) = ended else {
        return Err("the suite has no such test, or it did not end"
            .to_owned()
            .into());
    };
    match (expected, outcome) {
        (Expected::Pass | Expected::Race(_), Outcome::Passed)
        | (Expected::Fail(_), Outcome::Failed)
        | (Expected::Skip(_), Outcome::Skipped) => Ok(()),
        (Expected::Pass | Expected::Race(_), _) => Err(format!("{outcome:?}\n{detail}").into()),
        (Expected::Fail(reason), _) => {
            Err(format!("{outcome:?}, but was expected to fail: {reason}").into())
        }
        (Expected::Skip(reason), _) => {
            Err(format!("{outcome:?}, but was expected to be left out: {reason}\n{detail}").into())
        }
    }
}

fn run_suite() -> Result<Results, Stop> {
    let expected = expected::parse(EXPECTED)?;
    let suite = Suite::set_up()?;
    let mut results = suite.run(PROCESSES, &[])?;
    // The SDK closes a connection in one thread while another renews a lock on it, which fails now and then; the busier the
    // machine, the more often. What is wrong with the emulator fails again.
    let again: Vec<String> = results
        .iter()
        .filter(|(_, ended)| ended.outcome == Outcome::Failed)
        .map(|(name, _)| name.clone())
        .filter(|name| expected.get(name) == Some(&Expected::Pass))
        .collect();
    if (1..=MOST_REPEATED).contains(&again.len()) {
        for name in &again {
            let detail = results.get(name).map_or("", |ended| &ended.detail);
            let why = detail.lines().rev().find(|line| line.starts_with("E "));
            eprintln!(
                "{name} failed and is repeated: {}",
                why.unwrap_or("no error")
            );
        }
        results.append(&mut suite.run(FEW_PROCESSES, &again)?);
    }
    Ok(results)
}

/// The suite with an emulator for it.
struct Suite {
    tests: AzureServiceBusTests,
    emulator: EmulatorProgram,
}

impl Suite {
    fn set_up() -> Result<Self, Stop> {
        let tests = AzureServiceBusTests::set_up()?;
        let emulator = EmulatorProgram::start(
            Listen::AnyPort,
            r#"{ "UserConfig": { "Namespaces": [ { "Name": "sbemulatorns" } ] } }"#,
            &[
                EmulatorProgram::CHECKING_TOKENS,
                EmulatorProgram::STANDARD_LIMITS,
            ]
            .concat(),
        )?;
        Ok(Self { tests, emulator })
    }

    /// Runs all of its tests, or only some, in that many processes.
    fn run(&self, processes: &str, only: &[String]) -> Result<Results, Stop> {
        let emulator = &self.emulator;
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let results = folder.path().join("results.json");
        let (namespace, suffix) = EmulatorProgram::HOST.split_at(
            EmulatorProgram::HOST
                .find('.')
                .ok_or_else(|| "the host has a domain".to_owned())?,
        );
        let mut pytest = self.tests.pytest();
        pytest
            // The suite's marks for what may fail at the service do not count here.
            .args(["-q", "-m", "liveTest", "--runxfail"])
            .args(["-o", "asyncio_mode=auto"])
            .args(["--ignore", "mgmt_tests", "--ignore", "perf_tests"])
            // The last one needs OpenTelemetry, and no broker.
            .args(["--ignore", "unittests", "--ignore", "test_tracing.py"])
            .args(["-n", processes, "--dist", "load", "--maxschedchunk", "1"])
            .args(only)
            .env("EMULATOR_CONTROL", format!("http://{}", emulator.http()))
            .env("EMULATOR_PORT", emulator.amqp().port().to_string())
            .env("EMULATOR_NAMESPACE", namespace)
            .env("SERVICEBUS_ENDPOINT_SUFFIX", suffix)
            .env("EMULATOR_KEY", EmulatorProgram::KEY)
            .env("EMULATOR_CA_FILE", emulator.authority())
            .env("EMULATOR_RESULTS", &results);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        let finished = runtime.block_on(run(pytest, &[], LIMIT));
        if let Err(failure) = &finished {
            // What has ended by then counts; the others are named as missing.
            eprintln!("{failure}");
        }
        let read = fs::read_to_string(results)
            .map_err(|error| error.to_string())
            .and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()));
        read.map_err(|error| {
            let printed = match finished {
                Ok(finished) => format!("{}\n{}", finished.stdout, finished.stderr),
                Err(failure) => failure.to_string(),
            };
            Stop::Failed(format!(
                "no results: {error}\n{printed}\n{}",
                emulator.log()
            ))
        })
    }
}
