//! Our AMQP layer against foreign programs, over loopback.
//!
//! A test whose foreign program cannot be had is ignored with the reason; with `CI` set it fails.

mod brokers;
mod client;
mod fe2o3;
mod message;
mod proton_c;
mod ramqp_peer;
mod scenarios;
mod scripted;
mod tls;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use protocol_tests::peers::{Failure, ProtonC};
use tokio::runtime::Handle;

use brokers::{Brokers, Stop, blocking};
use scenarios::Scenario;

/// For everything a test does, once its foreign programs run.
const TEST_LIMIT: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let Ok(runtime) = runtime else {
        eprintln!("no runtime");
        return ExitCode::FAILURE;
    };
    let brokers = Arc::new(Brokers::default());

    let mut trials = Vec::new();
    foreign_pairs(&mut trials, runtime.handle(), &brokers);

    let conclusion = libtest_mimic::run(&arguments, trials);
    // Ends the foreign processes, which a plain exit would leave behind.
    drop(brokers);
    conclusion.exit_code()
}

/// Foreign clients with foreign brokers, one exchange each: where such a test fails, the fault is not ours.
fn foreign_pairs(trials: &mut Vec<Trial>, runtime: &Handle, brokers: &Arc<Brokers>) {
    for client in client::Kind::ALL {
        for broker in brokers::Kind::ALL {
            // These two do not come past the protocol headers.
            if (client, broker) == (client::Kind::Ramqp, brokers::Kind::Fe2o3) {
                continue;
            }
            let name = format!("foreign::{}::{}", client.name(), broker.name());
            let brokers = Arc::clone(brokers);
            trials.push(trial(runtime, name, async move || {
                let node = brokers.node(broker, client.name()).await?;
                let client = blocking(move || Ok(client.set_up()?)).await?;
                limited(Scenario::Exchange.run(&client, &node)).await
            }));
        }
    }
    for scenario in proton_c::Scenario::ALL {
        let name = format!("foreign::proton_c::proton_c_broker::{}", scenario.name());
        let brokers = Arc::clone(brokers);
        trials.push(trial(runtime, name, async move || {
            let proton = blocking(|| Ok(ProtonC::set_up()?)).await?;
            let node = brokers
                .node(brokers::Kind::ProtonC, scenario.name())
                .await?;
            limited(scenario.run(&proton, &node)).await
        }));
    }
}

fn trial<F>(runtime: &Handle, name: String, run: F) -> Trial
where
    F: AsyncFnOnce() -> Result<(), Stop> + Send + 'static,
{
    let runtime = runtime.clone();
    Trial::ignorable_test(name, move || match runtime.block_on(run()) {
        Ok(()) => Ok(Completion::Completed),
        Err(Stop::Unavailable(reason)) if std::env::var_os("CI").is_none() => {
            Ok(Completion::ignored_with(reason))
        }
        Err(Stop::Unavailable(reason)) => Err(Failed::from(reason.to_string())),
        Err(Stop::Failed(reason)) => Err(Failed::from(reason)),
    })
}

async fn limited(scenario: impl Future<Output = Result<(), Failure>>) -> Result<(), Stop> {
    match tokio::time::timeout(TEST_LIMIT, scenario).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(Stop::Failed(format!("not done within {TEST_LIMIT:?}"))),
    }
}
