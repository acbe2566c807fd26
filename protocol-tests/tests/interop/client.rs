//! The clients, behind one set of calls. Each call is a connection of its own, closed in order at the end.

use protocol_tests::peers::{Failure, ProtonPython, Rhea, Unavailable};

use crate::message::{Message, Node, Outcome};
use crate::{fe2o3, ours, ramqp_peer, scripted};

/// The foreign clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Fe2o3,
    ProtonPython,
    Ramqp,
    Rhea,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Fe2o3, Self::ProtonPython, Self::Ramqp, Self::Rhea];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fe2o3 => "fe2o3",
            Self::ProtonPython => "proton_python",
            Self::Ramqp => "ramqp",
            Self::Rhea => "rhea",
        }
    }

    /// Installs the client, if it needs that. May take seconds the first time.
    pub(crate) fn set_up(self) -> Result<Client, Unavailable> {
        Ok(match self {
            Self::Fe2o3 => Client::Fe2o3,
            Self::ProtonPython => Client::ProtonPython(ProtonPython::set_up()?),
            Self::Ramqp => Client::Ramqp,
            Self::Rhea => Client::Rhea(Rhea::set_up()?),
        })
    }
}

#[derive(Debug, Clone)]
pub(crate) enum Client {
    Ours,
    Fe2o3,
    ProtonPython(ProtonPython),
    Ramqp,
    Rhea(Rhea),
}

impl Client {
    /// Sends the messages and waits for the outcome of each.
    pub(crate) async fn send(
        &self,
        to: &Node,
        messages: &[Message],
    ) -> Result<Vec<Outcome>, Failure> {
        match self {
            Self::Ours => Box::pin(ours::send(to, messages)).await,
            Self::Fe2o3 => Box::pin(fe2o3::send(to, messages)).await,
            Self::ProtonPython(python) => scripted::send(python.client(), to, messages).await,
            Self::Ramqp => Box::pin(ramqp_peer::send(to, messages)).await,
            Self::Rhea(rhea) => scripted::send(rhea.client(), to, messages).await,
        }
    }

    /// Receives as many messages as there are outcomes, and settles each with its own.
    pub(crate) async fn receive(
        &self,
        from: &Node,
        outcomes: &[Outcome],
    ) -> Result<Vec<Message>, Failure> {
        match self {
            Self::Ours => Box::pin(ours::receive(from, outcomes)).await,
            Self::Fe2o3 => Box::pin(fe2o3::receive(from, outcomes)).await,
            Self::ProtonPython(python) => scripted::receive(python.client(), from, outcomes).await,
            Self::Ramqp => Box::pin(ramqp_peer::receive(from, outcomes)).await,
            Self::Rhea(rhea) => scripted::receive(rhea.client(), from, outcomes).await,
        }
    }

    /// Grants credit, accepts as many messages as are expected, then drains: returns what came when the peer has said that
    /// it has used up the rest of the credit.
    pub(crate) async fn drain(
        &self,
        from: &Node,
        credit: u32,
        expected: usize,
    ) -> Result<Vec<Message>, Failure> {
        match self {
            Self::Ours => Box::pin(ours::drain(from, credit, expected)).await,
            Self::Fe2o3 => Err("fe2o3-amqp does not say when a drain is over".into()),
            Self::ProtonPython(python) => {
                scripted::drain(python.client(), from, credit, expected).await
            }
            Self::Ramqp => Err("ramqp has no drain".into()),
            Self::Rhea(rhea) => scripted::drain(rhea.client(), from, credit, expected).await,
        }
    }
}
