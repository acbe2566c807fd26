//! Bars beside each other, as SVG.
//!
//! There is no background, and the greys have about the same contrast to white as to the near-black of dark pages.

use std::path::Path;

use anyhow::anyhow;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const TEXT: RGBColor = RGBColor(115, 124, 135);
const OURS: RGBColor = RGBColor(31, 136, 229);
const OTHERS: RGBColor = RGBColor(140, 149, 159);

const WIDTH: i32 = 820;
const COLUMNS: usize = 2;
const MARGIN: i32 = 16;
/// The heights of the title and of the line that says what the parts are.
const TITLE: i32 = 48;
const LEGEND: i32 = 30;
const PANEL_HEAD: i32 = 26;
const PANEL_GAP: i32 = 18;
const ROW: i32 = 22;
const BAR: i32 = 14;
/// What a name and the figures beside a bar take of a panel's width.
const NAME: i32 = 112;
const FIGURES: i32 = 92;

pub(super) struct Chart<'a> {
    pub(super) title: &'a str,
    /// What the parts of a bar are; empty if bars have one part.
    pub(super) parts: &'a [&'a str],
    pub(super) panels: Vec<Panel>,
}

/// Bars with a common scale.
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) bars: Vec<Bar>,
}

pub(super) struct Bar {
    pub(super) name: String,
    pub(super) is_ours: bool,
    /// The parts of its length; none if nothing was measured.
    pub(super) parts: Vec<f64>,
    /// What stands beside it.
    pub(super) label: String,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

impl Chart<'_> {
    pub(super) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let height: i32 = self.panels.chunks(COLUMNS).map(row_height).sum();
        let size = (WIDTH.unsigned_abs(), (self.head() + height).unsigned_abs());
        let area = SVGBackend::new(path, size).into_drawing_area();
        // Its errors name the area's type, which has no place in ours.
        self.draw(&area).map_err(|error| anyhow!("{error}"))?;
        area.present().map_err(|error| anyhow!("{error}"))
    }

    fn head(&self) -> i32 {
        if self.parts.is_empty() {
            TITLE
        } else {
            TITLE + LEGEND
        }
    }

    fn draw(&self, area: &Area<'_>) -> Drawn {
        text(area, self.title, (MARGIN, TITLE / 2), 20, HPos::Left)?;
        let mut x = MARGIN;
        for (number, part) in self.parts.iter().enumerate() {
            bar(area, (x, TITLE), BAR, &part_style(TEXT, number))?;
            text(area, part, (x + BAR + 6, TITLE + BAR / 2), 15, HPos::Left)?;
            x += 120;
        }
        let width = (WIDTH - MARGIN) / i32::try_from(COLUMNS).unwrap_or(1);
        let mut top = self.head();
        for row in self.panels.chunks(COLUMNS) {
            let mut left = MARGIN;
            for panel in row {
                panel.draw(area, (left, top), width - MARGIN)?;
                left += width;
            }
            top += row_height(row);
        }
        Ok(())
    }
}

type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

fn row_height(row: &[Panel]) -> i32 {
    let bars = row.iter().map(|panel| panel.bars.len()).max();
    PANEL_HEAD + PANEL_GAP + ROW * i32::try_from(bars.unwrap_or_default()).unwrap_or_default()
}

impl Panel {
    fn draw(&self, area: &Area<'_>, (left, top): (i32, i32), width: i32) -> Drawn {
        text(
            area,
            &self.title,
            (left, top + PANEL_HEAD / 2),
            17,
            HPos::Left,
        )?;
        let longest = self.bars.iter().map(Bar::length).fold(0.0, f64::max);
        let scale = f64::from(width - NAME - FIGURES) / longest.max(f64::MIN_POSITIVE);
        let mut middle = top + PANEL_HEAD + ROW / 2;
        for line in &self.bars {
            let color = if line.is_ours { OURS } else { OTHERS };
            text(area, &line.name, (left + NAME - 8, middle), 15, HPos::Right)?;
            let (mut start, mut length) = (left + NAME, 0.0);
            for (number, part) in line.parts.iter().enumerate() {
                length += part * scale;
                #[allow(
                    clippy::cast_possible_truncation,
                    reason = "within the width of the chart"
                )]
                let end = left + NAME + length.round() as i32;
                bar(
                    area,
                    (start, middle - BAR / 2),
                    end - start,
                    &part_style(color, number),
                )?;
                start = end;
            }
            text(area, &line.label, (start + 6, middle), 15, HPos::Left)?;
            middle += ROW;
        }
        Ok(())
    }
}

impl Bar {
    fn length(&self) -> f64 {
        self.parts.iter().sum()
    }
}

/// Each part is paler than the one before.
fn part_style(color: RGBColor, number: usize) -> ShapeStyle {
    let alpha = if number == 0 { 1.0 } else { 0.5 };
    color.mix(alpha).filled()
}

fn bar(area: &Area<'_>, (left, top): (i32, i32), width: i32, style: &ShapeStyle) -> Drawn {
    let corners = [(left, top), (left + width.max(1), top + BAR)];
    area.draw(&Rectangle::new(corners, *style))
}

fn text(area: &Area<'_>, text: &str, at: (i32, i32), size: i32, side: HPos) -> Drawn {
    let style = TextStyle::from(("sans-serif", size))
        .color(&TEXT)
        .pos(Pos::new(side, VPos::Center));
    area.draw(&Text::new(text.to_owned(), at, style))
}
