//! The program: what it prints, what it answers over HTTP, how it ends.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

/// A running program; killed when it is dropped.
struct Program {
    child: Child,
    http: String,
    connection_string: String,
    errors: BufReader<std::process::ChildStderr>,
}

impl Program {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_servicebus-emulator"))
            .args(["--port", "0", "--http-port", "0"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut connection_string = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut connection_string)
            .unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut ready = String::new();
        while !ready.starts_with("Ready: ") {
            ready.clear();
            assert_ne!(errors.read_line(&mut ready).unwrap(), 0, "it ended");
        }
        let http = ready
            .trim_end_matches(".\n")
            .rsplit(' ')
            .next()
            .unwrap()
            .to_owned();
        Self {
            child,
            http,
            connection_string: connection_string.trim().to_owned(),
            errors,
        }
    }

    /// One request; the status and the body.
    fn request(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let mut stream = TcpStream::connect(&self.http).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let body = serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.into()));
        (status, body)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_is_healthy_when_it_says_ready() {
    let program = Program::start(&[]);
    assert!(
        program
            .connection_string
            .starts_with("Endpoint=sb://127.0.0.1:")
            && program.connection_string.ends_with(
                ";SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
            ),
        "{}",
        program.connection_string
    );
    for _ in 0..3 {
        let health = program.request("GET", "/health", None);
        assert_eq!(health, (200, json!({ "status": "healthy" })));
    }
    // The probe is not seen.
    let entities = program.request("GET", "/$emulator/entities", None);
    assert_eq!(entities, (200, json!([])));
}

#[test]
fn entities_come_and_go_by_http() {
    let program = Program::start(&[]);
    let create = |body| program.request("POST", "/$emulator/entities", Some(body));
    let queue =
        json!({ "kind": "queue", "name": "orders", "lockDuration": 5000, "maxDeliveryCount": 2 });
    let (status, created) = create(queue.clone());
    assert_eq!((status, &created["path"]), (201, &json!("orders")));
    let (status, error) = create(queue);
    assert_eq!(status, 409);
    assert_eq!(
        error["error"]["code"],
        "com.microsoft:entity-already-exists"
    );
    assert_eq!(create(json!({ "kind": "topic", "name": "news" })).0, 201);
    let subscription = json!({ "kind": "subscription", "topic": "news", "name": "all" });
    assert_eq!(create(subscription).0, 201);
    let (status, error) = create(json!({ "kind": "queue", "name": "x", "lockDurration": 1 }));
    assert_eq!(status, 422);
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.contains("lockDurration"), "{message}");

    let (_, entities) = program.request("GET", "/$emulator/entities", None);
    let paths: Vec<_> = entities
        .as_array()
        .unwrap()
        .iter()
        .map(|entity| entity["path"].as_str().unwrap())
        .filter(|path| !path.contains('$'))
        .collect();
    assert_eq!(paths, ["news", "news/Subscriptions/all", "orders"]);
    let (status, snapshot) = program.request("GET", "/$emulator/snapshot?path=orders", None);
    assert_eq!((status, &snapshot["messages"]), (200, &json!([])));
    let (status, purged) = program.request("POST", "/$emulator/purge?path=orders", None);
    assert_eq!((status, purged), (200, json!({ "removed": 0 })));
    let delete = || {
        program
            .request("DELETE", "/$emulator/entities?path=orders", None)
            .0
    };
    assert_eq!((delete(), delete()), (204, 404));
    assert_eq!(program.request("POST", "/$emulator/reset", None).0, 204);
    let (_, entities) = program.request("GET", "/$emulator/entities", None);
    assert_eq!(entities, json!([]));
}

#[test]
fn the_clock_moves_by_http() {
    let program = Program::start(&["--manual-clock"]);
    let (_, before) = program.request("GET", "/$emulator/clock", None);
    let advance = json!({ "millis": 60_000 });
    let (status, after) =
        program.request("POST", "/$emulator/clock/advance", Some(advance.clone()));
    assert_eq!(status, 200);
    assert_eq!(
        after["millis"].as_u64().unwrap(),
        before["millis"].as_u64().unwrap() + 60_000
    );
    let program = Program::start(&[]);
    let (status, _) = program.request("POST", "/$emulator/clock/advance", Some(advance));
    assert_eq!(status, 409);
}

#[test]
fn faults_are_ordered_by_http() {
    let program = Program::start(&[]);
    let order = |body| program.request("POST", "/$emulator/faults", Some(body));
    assert_eq!(order(json!({ "fault": "drop" })).0, 204);
    let fail = json!({ "fault": "fail", "entity": "nope", "operation": "send", "error": "server-busy", "times": 1 });
    assert_eq!(order(fail).0, 404);
    let (status, error) = order(json!({ "fault": "explode" }));
    assert_eq!(status, 422);
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.contains("explode"), "{message}");
}

/// `SIGTERM` ends it with success, and says so.
#[test]
fn it_stops_on_sigterm() {
    let mut program = Program::start(&[]);
    let killed = Command::new("kill")
        .args(["-TERM", &program.child.id().to_string()])
        .status()
        .unwrap();
    assert!(killed.success());
    let status = program.child.wait().unwrap();
    assert!(status.success(), "{status}");
    let mut rest = String::new();
    program.errors.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "Stopping.\n");
}

fn fails(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_servicebus-emulator"))
        .args(arguments)
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_wrong_configuration_is_told_with_its_place() {
    let directory =
        std::env::temp_dir().join(format!("servicebus-emulator-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("config.json");
    let text = r#"{ "UserConfig": { "Namespaces": [ { "Name": "ns", "Queues": [
        { "Name": "orders", "Properties": { "LockDuration": "1 minute" } } ] } ] } }"#;
    std::fs::write(&path, text).unwrap();
    let error = fails(&["--config", path.to_str().unwrap()]);
    assert!(
        error.contains("UserConfig.Namespaces[0].Queues[0].Properties.LockDuration"),
        "{error}"
    );
    std::fs::remove_dir_all(&directory).unwrap();
    let error = fails(&["--config", path.to_str().unwrap()]);
    assert!(error.contains("cannot read"), "{error}");
}

#[test]
fn a_port_that_is_taken_is_told() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let error = fails(&["--port", &port, "--http-port", "0"]);
    assert!(
        error.contains(&format!("cannot listen on 127.0.0.1:{port}")),
        "{error}"
    );
}
