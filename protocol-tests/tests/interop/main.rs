//! Our AMQP layer against foreign programs, over loopback.
//!
//! A test whose foreign program cannot be had is ignored with the reason; with `CI` set it fails.

mod brokers;
mod client;
mod fe2o3;
mod message;
mod ours;
mod proton_c;
mod queues;
mod ramqp_peer;
mod scenarios;
mod scripted;
mod tls;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use protocol_tests::peers::{Failure, ProtonC};
use protocol_tests::trial::{self, Stop};
use tokio::runtime::Handle;

use brokers::{Brokers, blocking};
use client::Client;
use message::{Node, Sasl, Transport};
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
    our_client(&mut trials, runtime.handle(), &brokers);
    our_listener(&mut trials, runtime.handle(), &brokers);
    foreign_pairs(&mut trials, runtime.handle(), &brokers);

    let conclusion = libtest_mimic::run(&arguments, trials);
    // Ends the foreign processes, which a plain exit would leave behind.
    drop(brokers);
    conclusion.exit_code()
}

/// Our client with foreign brokers.
fn our_client(trials: &mut Vec<Trial>, runtime: &Handle, brokers: &Arc<Brokers>) {
    for broker in brokers::Kind::FOREIGN {
        for scenario in Scenario::ALL
            .into_iter()
            .filter(|&scenario| has(broker, scenario))
        {
            let name = format!("ours::{}::{}", broker.name(), scenario.name());
            let brokers = Arc::clone(brokers);
            trials.push(trial(runtime, name, async move || {
                let node = brokers
                    .node(broker, &format!("ours-{}", scenario.name()))
                    .await?;
                limited(scenario.run(&Client::Ours, &node)).await
            }));
        }
    }
}

/// What a foreign broker can do.
fn has(broker: brokers::Kind, scenario: Scenario) -> bool {
    use Scenario as S;
    match broker {
        brokers::Kind::Ours | brokers::Kind::Fe2o3 => true,
        // A rejection that is followed by the end of the link may get lost; failures are not counted.
        brokers::Kind::Ramqp => matches!(
            scenario,
            S::Exchange | S::LargeMessage | S::MixedSizes | S::Redelivery
        ),
        brokers::Kind::RabbitMq => matches!(
            scenario,
            S::Exchange | S::LargeMessage | S::MixedSizes | S::Rejection
        ),
        // Any outcome is final.
        brokers::Kind::ProtonC | brokers::Kind::ProtonPython => matches!(
            scenario,
            S::Exchange | S::LargeMessage | S::MixedSizes | S::Rejection
        ),
    }
}

/// How foreign clients come to our listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    Tcp,
    Tls,
    WebSocket,
    Login,
    WithoutSasl,
}

impl Route {
    const ALL: [Self; 5] = [
        Self::Tcp,
        Self::Tls,
        Self::WebSocket,
        Self::Login,
        Self::WithoutSasl,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::WebSocket => "websocket",
            Self::Login => "login",
            Self::WithoutSasl => "without_sasl",
        }
    }

    /// Everything over TCP, and over the others what differs there.
    fn scenarios(self) -> &'static [Scenario] {
        match self {
            Self::Tcp => &Scenario::ALL,
            Self::Tls | Self::WebSocket => &[Scenario::Exchange, Scenario::LargeMessage],
            Self::Login | Self::WithoutSasl => &[Scenario::Exchange],
        }
    }

    async fn node(self, brokers: &Brokers, name: &str) -> Result<Node, Stop> {
        let mut node = brokers.node(brokers::Kind::Ours, name).await?;
        match self {
            Self::Tcp => {}
            Self::Tls => {
                node.transport = Transport::Tls {
                    authority: brokers.authority().await?,
                }
            }
            Self::WebSocket => node.transport = Transport::WebSocket,
            Self::Login => {
                node.sasl = Sasl::Plain {
                    user: "guest",
                    password: "guest",
                }
            }
            Self::WithoutSasl => node.sasl = Sasl::None,
        }
        Ok(node)
    }
}

/// Foreign clients with our listener.
fn our_listener(trials: &mut Vec<Trial>, runtime: &Handle, brokers: &Arc<Brokers>) {
    for client in client::Kind::ALL {
        for route in Route::ALL.into_iter().filter(|&route| knows(client, route)) {
            for &scenario in route
                .scenarios()
                .iter()
                .filter(|&&scenario| can(client, scenario))
            {
                let name = format!(
                    "{}::our_listener::{}::{}",
                    client.name(),
                    route.name(),
                    scenario.name()
                );
                let address = format!("{}-{}-{}", client.name(), route.name(), scenario.name());
                let brokers = Arc::clone(brokers);
                trials.push(trial(runtime, name, async move || {
                    let node = route.node(&brokers, &address).await?;
                    let client = blocking(move || Ok(client.set_up()?)).await?;
                    limited(scenario.run(&client, &node)).await
                }));
            }
        }
    }
    for route in [Route::Tcp, Route::Tls] {
        for scenario in proton_c::Scenario::ALL {
            // The examples have one program for TLS, and it only sends.
            if route == Route::Tls && scenario == proton_c::Scenario::AbortedDeliveries {
                continue;
            }
            let name = format!(
                "proton_c::our_listener::{}::{}",
                route.name(),
                scenario.name()
            );
            let address = format!("proton_c-{}-{}", route.name(), scenario.name());
            let brokers = Arc::clone(brokers);
            trials.push(trial(runtime, name, async move || {
                let node = route.node(&brokers, &address).await?;
                let proton = blocking(|| Ok(ProtonC::set_up()?)).await?;
                limited(scenario.run(&proton, &node)).await
            }));
        }
    }
}

fn knows(client: client::Kind, route: Route) -> bool {
    match client {
        client::Kind::Ramqp | client::Kind::Rhea => true,
        client::Kind::Fe2o3 | client::Kind::ProtonPython => route != Route::WebSocket,
    }
}

fn can(client: client::Kind, scenario: Scenario) -> bool {
    match client {
        client::Kind::ProtonPython | client::Kind::Rhea => true,
        // Neither says when a drain is over.
        client::Kind::Fe2o3 | client::Kind::Ramqp => {
            !matches!(scenario, Scenario::Drain | Scenario::DrainEmpty)
        }
    }
}

/// Foreign clients with foreign brokers, one exchange each: where such a test fails, the fault is not ours.
fn foreign_pairs(trials: &mut Vec<Trial>, runtime: &Handle, brokers: &Arc<Brokers>) {
    for client in client::Kind::ALL {
        for broker in brokers::Kind::FOREIGN {
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
    trial::trial(name, move || runtime.block_on(run()))
}

async fn limited(scenario: impl Future<Output = Result<(), Failure>>) -> Result<(), Stop> {
    match tokio::time::timeout(TEST_LIMIT, scenario).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(format!("not done within {TEST_LIMIT:?}").into()),
    }
}
