//! tmp
#![allow(missing_docs, clippy::all, clippy::pedantic)]
use crate::artifacts::RunReport;
use crate::schedule::PhaseStats;
use std::io::Write;
use std::path::PathBuf;
pub const FILE_WIDTH: u16 = 140;
pub fn terminal_width() -> u16 {
    100
}
pub fn render(r: &RunReport, _: u16) -> String {
    let mut s = String::new();
    for m in &r.results {
        s += &format!("{} {} {:?}\n", m.metric.header, m.metric.display_unit, m.stats.avg);
    }
    s += &format!("{:?} {:?}\n", r.telemetry, r.errors);
    s
}
pub fn write_files(o: &mut impl Write, f: &[PathBuf]) -> std::io::Result<()> {
    for p in f {
        writeln!(o, "{}", p.display())?;
    }
    Ok(())
}
pub struct LiveView;
impl LiveView {
    pub fn new(_: bool) -> Self {
        Self
    }
    pub fn update(&mut self, _: &PhaseStats) {}
    pub fn finish(self) {}
}
