//! The emulator as a program: for tests in other languages, and for trying things out.
#![forbid(unsafe_code)]

mod arguments;
mod control;
mod health;

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser as _;
use servicebus_emulator::config::Config;
use servicebus_emulator::{Clock, Emulator, Rights, Verdict};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::arguments::Arguments;

// One thread: connections share the broker, so more of them would mostly wait for one another and wake each other up.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt()
        .with_max_level(arguments.level())
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    match run(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("servicebus-emulator: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let mut builder = Emulator::builder()
        .profile(arguments.profile.into())
        .listen((arguments.host, arguments.port));
    if let Some(path) = &arguments.config {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let config =
            Config::parse(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        builder = builder.config(config);
    }
    for (name, key) in &arguments.key {
        builder = builder.key(name, key, Rights::Manage);
    }
    if !arguments.key.is_empty() {
        // Nobody here could check them.
        builder = builder.token_hook(|_| Verdict::Accept);
    }
    if arguments.tls {
        builder = builder.tls_for(arguments.tls_names.iter().map(String::as_str));
    }
    if arguments.manual_clock {
        #[allow(
            clippy::disallowed_methods,
            reason = "a manual clock begins with the present"
        )]
        let now = std::time::SystemTime::now();
        builder = builder.clock(Clock::manual(now));
    }
    if arguments.frames {
        builder = builder.frame_log();
    }
    let emulator = Arc::new(builder.start().await?);
    if let (Some(path), Some(pem)) = (&arguments.ca_file, emulator.ca_pem()) {
        std::fs::write(path, pem)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        eprintln!("The certificate authority is in {}.", path.display());
    }
    let http = TcpListener::bind((arguments.host, arguments.http_port))
        .await
        .map_err(|error| {
            format!(
                "cannot listen on {}:{}: {error}",
                arguments.host, arguments.http_port
            )
        })?;
    let http_address = http.local_addr()?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;

    println!("{}", emulator.connection_string());
    if let Some(address) = emulator.local_addr() {
        eprintln!("Ready: AMQP on {address}, HTTP on {http_address}.");
    }
    let stopped = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    axum::serve(http, control::router(Arc::clone(&emulator)))
        .with_graceful_shutdown(stopped)
        .await?;
    eprintln!("Stopping.");
    if let Some(emulator) = Arc::into_inner(emulator) {
        emulator.stop().await;
    }
    Ok(())
}
