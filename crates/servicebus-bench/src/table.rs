//! Tables in Markdown, padded so that they read as well in a terminal.

use std::fmt;

/// The first column is text, the others are figures and stand to the right.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<T: Into<String>>(header: impl IntoIterator<Item = T>) -> Self {
        let mut table = Self { rows: Vec::new() };
        table.row(header);
        table
    }

    pub(crate) fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }
}

impl fmt::Display for Table {
    /// Nothing if there are no figures.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rows.len() < 2 {
            return Ok(());
        }
        let columns = self.rows.first().map_or(0, Vec::len);
        let widths: Vec<_> = (0..columns)
            .map(|column| {
                let cells = self.rows.iter().filter_map(|row| row.get(column));
                cells
                    .map(|cell| cell.chars().count())
                    .max()
                    .unwrap_or_default()
            })
            .collect();
        for (number, row) in self.rows.iter().enumerate() {
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                if column == 0 {
                    write!(f, "| {cell:width$} ")?;
                } else {
                    write!(f, "| {cell:>width$} ")?;
                }
            }
            writeln!(f, "|")?;
            if number == 0 {
                for (column, width) in widths.iter().enumerate() {
                    if column == 0 {
                        write!(f, "|{:-<1$}", "", width + 2)?;
                    } else {
                        write!(f, "|{:-<1$}:", "", width + 1)?;
                    }
                }
                writeln!(f, "|")?;
            }
        }
        Ok(())
    }
}

/// Three digits, or all of those before the point.
pub(crate) fn figure(value: f64) -> String {
    match value {
        ..10.0 => format!("{value:.2}"),
        ..100.0 => format!("{value:.1}"),
        _ => thousands(value),
    }
}

/// A whole number with a comma between its thousands.
pub(crate) fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// How many times ours the other's figure is.
pub(crate) fn times(other: f64, ours: f64) -> String {
    match other / ours {
        ratio @ ..0.1 => format!("{ratio:.3}"),
        ratio => figure(ratio),
    }
}

/// Bytes as MiB.
pub(crate) fn mib(bytes: f64) -> String {
    format!("{:.1}", bytes / 1024.0 / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_commas() {
        assert_eq!(figure(1.317), "1.32");
        assert_eq!(figure(21.04), "21.0");
        assert_eq!(figure(999.4), "999");
        assert_eq!(figure(703_112.4), "703,112");
        assert_eq!(thousands(1_000.0), "1,000");
    }

    #[test]
    fn a_table_is_padded() {
        let mut table = Table::new(["peer", "µs"]);
        table.row(["servicebus-amqp", "1.32"]);
        table.row(["tcp", "0.4"]);
        assert_eq!(
            table.to_string(),
            "| peer            |   µs |\n\
             |-----------------|-----:|\n\
             | servicebus-amqp | 1.32 |\n\
             | tcp             |  0.4 |\n"
        );
    }
}
