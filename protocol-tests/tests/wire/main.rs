//! What our running client puts on the wire for each operation, field by field beside what the official SDKs put there.
//! Every difference stands in `docs/protocol/wire-differences.md`, with its reason.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that meets something else than it expects is to fail"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "the emulator's clock starts at the system's time"
)]

mod fields;
mod play;
mod tap;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use protocol_tests::golden;

const TABLE: &str = include_str!("../../../docs/protocol/wire-differences.md");

/// A field of a golden frame that ours has otherwise.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Difference {
    frame: String,
    field: String,
    theirs: String,
    ours: String,
}

/// A line of the table: the frame may end in a star.
struct Known {
    difference: Difference,
    why: String,
}

impl Known {
    fn covers(&self, found: &Difference) -> bool {
        let known = &self.difference;
        let frame = match known.frame.strip_suffix('*') {
            Some(start) => found.frame.starts_with(start),
            None => found.frame == known.frame,
        };
        frame
            && (&found.field, &found.theirs, &found.ours)
                == (&known.field, &known.theirs, &known.ours)
    }
}

#[tokio::test]
async fn differences_to_the_official_sdks_are_the_known_ones() {
    let mut found = BTreeSet::new();
    let meanings: BTreeMap<_, _> = golden::all().map(|g| (g.name, g.meaning)).collect();
    for (frame, ours) in play::play().await {
        for (field, theirs, ours) in fields::differences(meanings[frame], &ours) {
            let frame = frame.to_owned();
            found.insert(Difference {
                frame,
                field,
                theirs,
                ours,
            });
        }
    }
    let table = table();
    let mut report = String::new();
    for new in &found {
        if !table.iter().any(|known| known.covers(new)) {
            writeln!(
                report,
                "| `{}` | `{}` | `{}` | `{}` |  |",
                new.frame, new.field, new.theirs, new.ours
            )
            .unwrap();
        }
    }
    for known in &table {
        assert!(!known.why.is_empty(), "no reason: {:?}", known.difference);
        if !found.iter().any(|found| known.covers(found)) {
            writeln!(report, "not so any more: {:?}", known.difference).unwrap();
        }
    }
    assert!(report.is_empty(), "\n{report}");
}

/// Each frame that was captured from a running SDK is compared with one of ours.
#[tokio::test]
async fn every_captured_frame_of_a_client_is_compared() {
    let compared: BTreeSet<_> = play::play()
        .await
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    for golden in golden::all() {
        let captured = golden.name.starts_with("py-") || golden.name.starts_with("js-");
        if captured && golden.kind == golden::Kind::Frame {
            assert!(compared.contains(golden.name), "{}", golden.name);
        }
    }
}

/// The lines of the table: frame, field, theirs, ours, and why.
fn table() -> Vec<Known> {
    let lines = TABLE.lines().filter(|line| line.starts_with("| `"));
    let known = lines.map(|line| {
        let line = line.trim_start_matches("| ").trim_end_matches('|');
        let mut cells = line
            .split(" | ")
            .map(|cell| cell.trim().trim_matches('`').to_owned());
        let mut cell = || cells.next().expect("five cells");
        Known {
            difference: Difference {
                frame: cell(),
                field: cell(),
                theirs: cell(),
                ours: cell(),
            },
            why: cell(),
        }
    });
    known.collect()
}
