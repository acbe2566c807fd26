use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytestring::ByteString;
use servicebus_amqp::engine::{Config, Credentials, Sasl};
use servicebus_amqp::net::Connection;
use servicebus_amqp::types::{Map, Symbol};
use tokio::sync::watch;

use super::cell::Cell;
use super::closing::Closing;
use super::connect::Connect;
use super::credential::ProvideToken;
use super::in_flight::InFlight;
use super::intake::Intake;
use super::live::Live;
use super::node::{Node, Problem};
use super::renewer::Renewer;
use super::state::{ClientState, States};
use crate::connection_string::{ConnectionString, Endpoint};
use crate::entity::Address;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{ClientOptions, TransactionScope};

/// How long closing waits for answers that are under way.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// What all senders and receivers of a client share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) endpoint: Endpoint,
    pub(crate) options: ClientOptions,
    pub(crate) credential: Arc<dyn ProvideToken>,
    pub(crate) closing: Closing,
    /// What waits for its answer, as sends, settlements and requests.
    pub(crate) in_flight: InFlight,
    /// What has to be given back when the client is closed.
    intakes: Mutex<Vec<Weak<Intake>>>,
    /// Limits the client to one entity.
    connection_string: Option<ConnectionString>,
    connector: Arc<dyn Connect>,
    container_id: ByteString,
    slots: Vec<Cell<Live>>,
    next_slot: AtomicUsize,
    generations: AtomicU64,
    nodes: Mutex<HashMap<Address, Weak<Node>>>,
    pub(crate) renewer: Arc<Renewer>,
    states: Mutex<States>,
    state: watch::Sender<ClientState>,
}

impl Shared {
    pub(crate) fn new(
        endpoint: Endpoint,
        connection_string: Option<ConnectionString>,
        credential: Arc<dyn ProvideToken>,
        connector: Arc<dyn Connect>,
        options: ClientOptions,
    ) -> Self {
        let slots = usize::try_from(options.connections.max(1)).unwrap_or(1);
        let container_id = options
            .identifier
            .clone()
            .unwrap_or_else(|| uuid::Uuid::new_v4().to_string().into());
        Self {
            endpoint,
            options,
            credential,
            closing: Closing::default(),
            in_flight: InFlight::default(),
            intakes: Mutex::default(),
            connection_string,
            connector,
            container_id,
            slots: (0..slots).map(|_| Cell::default()).collect(),
            next_slot: AtomicUsize::new(0),
            generations: AtomicU64::new(0),
            nodes: Mutex::default(),
            renewer: Arc::default(),
            states: Mutex::new(States::new(slots)),
            state: watch::Sender::new(ClientState::Idle),
        }
    }

    pub(crate) fn identifier(&self) -> &str {
        &self.container_id
    }

    pub(crate) fn state(&self) -> watch::Receiver<ClientState> {
        self.state.subscribe()
    }

    /// The connection for the links to an address. Queues that belong to an entity, and subscriptions of one topic, are on
    /// its connection, so that they can have part in one transaction.
    fn slot(&self, nodes: &HashMap<Address, Weak<Node>>, address: &Address) -> usize {
        if self.slots.len() == 1 || self.options.transactions == TransactionScope::CrossEntity {
            return 0;
        }
        let relative = nodes
            .values()
            .filter_map(Weak::upgrade)
            .find(|node| node.address.root() == address.root());
        match relative {
            Some(node) => node.slot,
            None => self.next_slot.fetch_add(1, Ordering::Relaxed) % self.slots.len(),
        }
    }

    /// What the users of an entity share. A wrong name is an error of each operation.
    pub(crate) fn node(
        self: &Arc<Self>,
        name: impl std::fmt::Display,
        address: Result<Address>,
    ) -> Arc<Node> {
        let checked = address.and_then(|address| {
            if let Some(limits) = &self.connection_string {
                limits
                    .check_entity(address.as_str())
                    .map_err(|error| Error::new(ErrorKind::InvalidArgument, error.to_string()))?;
            }
            Ok(address)
        });
        let address = match checked {
            Ok(address) => address,
            Err(error) => {
                let address = Address::unchecked(name.to_string());
                let problem = Some(Problem::from(error));
                return Arc::new(Node::new(Arc::clone(self), 0, address, problem));
            }
        };
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = nodes.get(&address).and_then(Weak::upgrade) {
            return node;
        }
        nodes.retain(|_, node| node.strong_count() > 0);
        let slot = self.slot(&nodes, &address);
        let node = Arc::new(Node::new(Arc::clone(self), slot, address.clone(), None));
        nodes.insert(address, Arc::downgrade(&node));
        node
    }

    /// The connection, if it is open.
    pub(crate) fn living(&self, slot: usize) -> Option<Arc<Live>> {
        self.slots.get(slot)?.living()
    }

    /// The connection, opened if it is not.
    pub(crate) async fn live(self: &Arc<Self>, slot: usize) -> Result<Arc<Live>> {
        self.closing.check()?;
        let Some(cell) = self.slots.get(slot) else {
            return Err(Error::new(ErrorKind::Other, "there is no such connection"));
        };
        let this = Arc::clone(self);
        let live = cell
            .get_or_make(|| async move { this.connect(slot).await })
            .await?;
        self.closing.check()?;
        Ok(live)
    }

    async fn connect(self: &Arc<Self>, slot: usize) -> Result<Live> {
        let generation = self.generations.fetch_add(1, Ordering::Relaxed);
        let connecting = async { Ok(self.connector.connect(self.config()).await?) };
        let connection = match self.closing.unless_closed(connecting).await {
            Ok(connection) => connection,
            Err(error) => {
                self.set_state(slot, generation, recovering(&error));
                return Err(error);
            }
        };
        tracing::info!(namespace = self.endpoint.host(), generation, "connected");
        self.set_state(slot, generation, ClientState::Connected);
        let watch = tokio::spawn(watch_end(
            Arc::downgrade(self),
            slot,
            generation,
            connection.clone(),
        ));
        Ok(Live::new(
            generation,
            connection,
            watch.abort_handle(),
            self.options.transactions,
        ))
    }

    fn config(&self) -> Config {
        let mut config = Config::new(self.container_id.clone());
        config.hostname = Some(self.endpoint.host().into());
        config.idle_timeout = Some(self.options.idle_timeout);
        config.sasl = Sasl::Client(vec![Credentials::Mssbcbs, Credentials::Anonymous]);
        config.properties = Some(self.product());
        config
    }

    /// Who this is, in the words of the official SDKs.
    fn product(&self) -> Map {
        const PRODUCT: &str = "servicebus-rust";
        const VERSION: &str = env!("CARGO_PKG_VERSION");
        let symbol = Symbol::from_static;
        let platform = format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH);
        let agent = match &self.options.application_id {
            Some(application) => format!("{application} {PRODUCT}/{VERSION} ({platform})"),
            None => format!("{PRODUCT}/{VERSION} ({platform})"),
        };
        Map::new()
            .with(symbol("product"), PRODUCT)
            .with(symbol("version"), VERSION)
            .with(symbol("platform"), platform)
            .with(symbol("user-agent"), agent)
    }

    fn set_state(&self, slot: usize, generation: u64, state: ClientState) {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let worst = states.set(slot, generation, state);
        if self.closing.is_closed() {
            return;
        }
        self.state.send_if_modified(|current| {
            let changed = *current != worst;
            *current = worst;
            changed
        });
    }

    /// An intake whose messages are to be given back when the client is closed.
    pub(crate) fn add_intake(&self, intake: &Arc<Intake>) {
        let mut intakes = self.intakes.lock().unwrap_or_else(PoisonError::into_inner);
        if intakes.len() == intakes.capacity() {
            intakes.retain(|intake| intake.strong_count() > 0);
        }
        intakes.push(Arc::downgrade(intake));
    }

    /// Waits a little for what is under way, gives back what waits here, and closes the connections.
    pub(crate) async fn close(&self) {
        self.closing.close();
        self.state.send_replace(ClientState::Closed);
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, self.in_flight.over()).await;
        let intakes: Vec<_> = {
            let intakes = self.intakes.lock().unwrap_or_else(PoisonError::into_inner);
            intakes.iter().filter_map(Weak::upgrade).collect()
        };
        futures_util::future::join_all(intakes.iter().map(|intake| intake.close())).await;
        let open = self.slots.iter().filter_map(Cell::end);
        let closes = open.map(|live| async move { live.connection.close().await });
        futures_util::future::join_all(closes).await;
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.state.send_replace(ClientState::Closed);
    }
}

fn recovering(error: &dyn std::fmt::Display) -> ClientState {
    ClientState::Recovering {
        reason: error.to_string().into(),
    }
}

/// Tells of the end of a connection.
async fn watch_end(shared: Weak<Shared>, slot: usize, generation: u64, connection: Connection) {
    let error = connection.closed().await;
    let Some(shared) = shared.upgrade() else {
        return;
    };
    if shared.closing.is_closed() {
        return;
    }
    tracing::warn!(namespace = shared.endpoint.host(), generation, %error, "connection lost");
    shared.set_state(slot, generation, recovering(&error));
}
