//! The brokers, each started once for all tests when the first of them needs it.

use std::path::PathBuf;

use protocol_tests::peers::{Process, ProtonC, ProtonPython, RabbitMq};
use protocol_tests::trial::Stop;
use tokio::sync::OnceCell;

use crate::message::{Node, Sasl, Transport};
use crate::tls::Identity;
use crate::{fe2o3, ours, ramqp_peer};

/// The smallest frame that every peer takes: large messages go through in many frames.
const SMALL_FRAME: u32 = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Ours,
    Fe2o3,
    ProtonC,
    ProtonPython,
    RabbitMq,
    Ramqp,
}

impl Kind {
    pub(crate) const FOREIGN: [Self; 5] = [
        Self::Fe2o3,
        Self::ProtonC,
        Self::ProtonPython,
        Self::RabbitMq,
        Self::Ramqp,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours => "our_broker",
            Self::Fe2o3 => "fe2o3_broker",
            Self::ProtonC => "proton_c_broker",
            Self::ProtonPython => "proton_python_broker",
            Self::RabbitMq => "rabbitmq",
            Self::Ramqp => "ramqp_broker",
        }
    }
}

/// What is running. Dropping it ends the foreign processes.
#[derive(Default)]
pub(crate) struct Brokers {
    ours: OnceCell<Result<(Identity, u16), Stop>>,
    fe2o3: OnceCell<Result<u16, Stop>>,
    proton_c: OnceCell<Result<(Process, u16), Stop>>,
    proton_python: OnceCell<Result<(Process, u16), Stop>>,
    rabbitmq: OnceCell<Result<RabbitMq, Stop>>,
    ramqp: OnceCell<Result<u16, Stop>>,
}

impl Brokers {
    /// The port of our broker, and who it is in TLS.
    async fn ours(&self) -> Result<&(Identity, u16), Stop> {
        let start = async || {
            let identity = Identity::generate()?;
            let port = ours::start_broker(&identity, SMALL_FRAME).await?;
            Ok((identity, port))
        };
        self.ours
            .get_or_init(start)
            .await
            .as_ref()
            .map_err(Clone::clone)
    }

    /// The file with the authority behind our broker's certificate.
    pub(crate) async fn authority(&self) -> Result<PathBuf, Stop> {
        Ok(self.ours().await?.0.authority.clone())
    }

    /// The node `name` of the given broker, which is started if it is not running.
    pub(crate) async fn node(&self, kind: Kind, name: &str) -> Result<Node, Stop> {
        let mut sasl = Sasl::Anonymous;
        let mut address = name.to_owned();
        let port = match kind {
            Kind::Ours => self.ours().await?.1,
            Kind::Fe2o3 => {
                let start = async || Ok(fe2o3::start_broker(SMALL_FRAME).await?);
                self.fe2o3.get_or_init(start).await.clone()?
            }
            Kind::ProtonC => {
                let start = async || Ok(blocking(|| Ok(ProtonC::set_up()?.start_broker()?)).await?);
                self.proton_c
                    .get_or_init(start)
                    .await
                    .as_ref()
                    .map_err(Clone::clone)?
                    .1
            }
            Kind::ProtonPython => {
                let start =
                    async || Ok(blocking(|| Ok(ProtonPython::set_up()?.start_broker()?)).await?);
                self.proton_python
                    .get_or_init(start)
                    .await
                    .as_ref()
                    .map_err(Clone::clone)?
                    .1
            }
            Kind::RabbitMq => {
                sasl = Sasl::Plain {
                    user: "guest",
                    password: "guest",
                };
                address = format!("/queue/{name}");
                let start = async || {
                    RabbitMq::check()?;
                    blocking(|| Ok(RabbitMq::start()?)).await
                };
                self.rabbitmq
                    .get_or_init(start)
                    .await
                    .as_ref()
                    .map_err(Clone::clone)?
                    .port()
            }
            Kind::Ramqp => {
                address = format!("/queues/{name}");
                let start = async || Ok(ramqp_peer::start_broker(SMALL_FRAME).await?);
                self.ramqp.get_or_init(start).await.clone()?
            }
        };
        Ok(Node {
            port,
            transport: Transport::Tcp,
            sasl,
            address,
            max_frame_size: SMALL_FRAME,
            answers_detach: kind != Kind::RabbitMq,
        })
    }
}

/// Runs what blocks, such as an installation, where it delays no other task.
pub(crate) async fn blocking<T: Send + 'static>(
    start: impl FnOnce() -> Result<T, Stop> + Send + 'static,
) -> Result<T, Stop> {
    tokio::task::spawn_blocking(start)
        .await
        .map_err(|error| Stop::Failed(error.to_string()))?
}
