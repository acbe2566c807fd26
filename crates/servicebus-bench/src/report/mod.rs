//! The page with all figures, and its charts.

mod chart;
mod machine;

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use clap::ValueEnum;

use crate::record::{Measured, Missing};
use crate::role::name_of;
use crate::table::{figure, thousands};
use crate::{amqp, client};
use chart::{Bar, Chart, Panel};
pub(crate) use machine::Machine;

const PAGE: &str = include_str!("page.md");

/// The folder beside the page that has its charts and figures: the page's path without `.md`.
pub(crate) fn folder(page: &Path) -> std::path::PathBuf {
    page.with_extension("")
}

/// Writes the page and its charts.
pub(crate) fn write(measured: &Measured<'_>, page: &Path) -> anyhow::Result<()> {
    let machine = measured
        .machine
        .context("the figures do not say where they come from: a line of \"bench\":\"machine\"")?;
    let folder = folder(page);
    fs::create_dir_all(&folder)?;
    client_chart(measured, "CPU time per message, µs", figure, |figures| {
        figures.cpu_us
    })
    .write(&folder.join("client-cpu.svg"))?;
    client_chart(measured, "Messages per second", thousands, |figures| {
        figures.rate
    })
    .write(&folder.join("client-rate.svg"))?;
    amqp_chart(measured).write(&folder.join("amqp-cpu.svg"))?;

    let folder = folder.file_name().unwrap_or_default().to_string_lossy();
    let mut text = PAGE
        .replace("{{folder}}", &folder)
        .replace("{{command}}", &machine.command())
        .replace("{{machine}}", machine.table().to_string().trim_end())
        .replace("{{missing}}", missing(&measured.missing).trim_end());
    for (benchmark, tables) in measured.tables() {
        text = text.replace(&format!("{{{{{benchmark}}}}}"), tables.trim_end());
    }
    Ok(fs::write(page, text)?)
}

/// Puts the tables that a README quotes in the place of those that stand there. One without figures stays as it is.
pub(crate) fn write_readme(measured: &Measured<'_>, readme: &Path) -> anyhow::Result<()> {
    let mut text = fs::read_to_string(readme)?;
    for (mark, table) in [
        ("client", client::readme_table(&measured.client)),
        ("amqp", amqp::readme_table(&measured.amqp)),
    ] {
        let table = table.to_string();
        if table.is_empty() {
            eprintln!("{}: no figures for {mark}", readme.display());
        } else {
            text = replace_marked(&text, mark, &table)
                .with_context(|| format!("{}: no mark for {mark}", readme.display()))?;
        }
    }
    Ok(fs::write(readme, text)?)
}

/// The text with another content between `<!-- MARK -->` and the next `<!-- end -->`.
fn replace_marked(text: &str, mark: &str, content: &str) -> Option<String> {
    let (before, rest) = text.split_once(&format!("<!-- {mark} -->"))?;
    let (_, after) = rest.split_once("<!-- end -->")?;
    Some(format!(
        "{before}<!-- {mark} -->\n\n{content}\n<!-- end -->{after}"
    ))
}

fn missing(missing: &[&Missing]) -> String {
    if missing.is_empty() {
        return "Nothing is missing: every peer was there in every case.".to_owned();
    }
    let mut text = "**Missing in this run:**\n\n".to_owned();
    for Missing { from, peer, why } in missing {
        let peer = peer.as_deref().unwrap_or("all of it");
        // Whatever a program said, in one line.
        let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
        text += &format!("* `{from}`, {peer}: {why}\n");
    }
    text
}

/// A panel for each case, a bar for each client.
fn client_chart<'a>(
    measured: &Measured<'_>,
    title: &'a str,
    show: fn(f64) -> String,
    of: fn(&client::Figures) -> f64,
) -> Chart<'a> {
    let panels = client::Case::MEASURED.map(name_of).map(|case| {
        let bars = client::Peer::value_variants().iter().map(|peer| {
            let name = name_of(*peer);
            let mut lines = measured.client.iter();
            let line = lines.find(|line| line.peer == name && line.case == case);
            bar(
                name,
                *peer == client::Peer::Servicebus,
                line.map(|line| vec![of(&line.figures)]),
                show,
            )
        });
        Panel {
            bars: bars.collect(),
            title: case,
        }
    });
    Chart {
        title,
        parts: &[],
        panels: panels.into(),
    }
}

/// A panel for each size of body, a bar for each peer: unsettled messages, sending and receiving.
fn amqp_chart(measured: &Measured<'_>) -> Chart<'static> {
    let case = name_of(amqp::Case::Unsettled);
    let panels = amqp::BODIES.map(|body| {
        let peers = amqp::Peer::value_variants()
            .iter()
            .filter(|peer| amqp::Case::Unsettled.makes_sense(**peer, body));
        let bars = peers.map(|peer| {
            let name = name_of(*peer);
            let mut lines = measured.amqp.iter();
            let line =
                lines.find(|line| line.peer == name && line.case == case && line.body == body);
            let parts =
                line.map(|line| vec![line.figures.sender_cpu_us, line.figures.receiver_cpu_us]);
            bar(name, *peer == amqp::Peer::ServicebusAmqp, parts, figure)
        });
        Panel {
            bars: bars.collect(),
            title: format!("{} bytes", thousands(body as f64)),
        }
    });
    Chart {
        title: "CPU time per message, µs (unsettled, 1,000 in flight)",
        parts: &["sending", "receiving"],
        panels: panels.into(),
    }
}

fn bar(name: String, is_ours: bool, parts: Option<Vec<f64>>, show: fn(f64) -> String) -> Bar {
    let label = parts.as_ref().map(|parts| {
        let parts: Vec<_> = parts.iter().map(|part| show(*part)).collect();
        parts.join(" + ")
    });
    Bar {
        name,
        is_ours,
        label: label.unwrap_or_else(|| "missing".to_owned()),
        parts: parts.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_is_replaced() {
        let text = "a <!-- x --> old <!-- end --> b <!-- y --> kept <!-- end -->";
        assert_eq!(
            replace_marked(text, "x", "new").as_deref(),
            Some("a <!-- x -->\n\nnew\n<!-- end --> b <!-- y --> kept <!-- end -->")
        );
        assert_eq!(replace_marked(text, "z", "new"), None);
    }

    #[test]
    fn the_readme_has_the_marks() {
        let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
        let readme = fs::read_to_string(readme).unwrap();
        assert!(replace_marked(&readme, "client", "").is_some());
        assert!(replace_marked(&readme, "amqp", "").is_some());
    }
}
