//! A picture as SVG.

use std::fmt::Write as _;

use base::redact;

use super::font::FAMILY;
use super::scene::{Anchor, DASH, HALO, Item, Line, Position, Scene, Text};

/// Returns the SVG file of `scene`.
pub(super) fn file(scene: &Scene) -> String {
    let Scene { width, height, ground, .. } = scene;
    let title = escaped(&scene.title);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" font-family=\"{FAMILY}\">\n\
         <title>{title}</title>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"{ground}\"/>\n"
    );
    for part in &scene.parts {
        // Writing to a string cannot fail, neither here nor below.
        let name = part.name.as_deref().map(|name| format!("<title>{}</title>", escaped(name)));
        let _ = writeln!(out, "<g class=\"{}\">{}", part.class, name.unwrap_or_default());
        for item in &part.items {
            write_item(&mut out, item);
        }
        out += "</g>\n";
    }
    out + "</svg>\n"
}

fn write_item(out: &mut String, item: &Item) {
    let _ = match item {
        Item::Line(Line { places, colour, width, is_dashed }) => {
            let dash = if *is_dashed {
                format!(" stroke-dasharray=\"{} {}\"", DASH[0], DASH[1])
            } else {
                String::new()
            };
            writeln!(
                out,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" \
                 stroke-width=\"{width}\" stroke-linejoin=\"round\"{dash}/>",
                points(places)
            )
        }
        Item::Area { places, colour, opacity } => writeln!(
            out,
            "<polygon points=\"{}\" fill=\"{colour}\" fill-opacity=\"{opacity}\"/>",
            points(places)
        ),
        Item::Dots { places, radius, colour, opacity } => {
            let _ = writeln!(out, "<g fill=\"{colour}\" fill-opacity=\"{opacity}\">");
            for (x, y) in places {
                let _ = writeln!(
                    out,
                    "<circle cx=\"{}\" cy=\"{}\" r=\"{radius}\"/>",
                    number(*x),
                    number(*y)
                );
            }
            writeln!(out, "</g>")
        }
        Item::Text(text) => write_text(out, text),
    };
}

fn write_text(out: &mut String, text: &Text) -> std::fmt::Result {
    let (x, y) = (number(text.at.0), number(text.at.1));
    let anchor = match text.anchor {
        Anchor::Start => "start",
        Anchor::Middle => "middle",
        Anchor::End => "end",
    };
    let turn =
        if text.is_upright { format!(" transform=\"rotate(-90 {x} {y})\"") } else { String::new() };
    let halo = text.halo.map(|colour| {
        let width = 2.0 * HALO;
        format!(" stroke=\"{colour}\" stroke-width=\"{width}\" stroke-linejoin=\"round\" paint-order=\"stroke\"")
    });
    writeln!(
        out,
        "<text x=\"{x}\" y=\"{y}\" font-size=\"{}\" text-anchor=\"{anchor}\" fill=\"{}\"{turn}{}>{}</text>",
        text.size,
        text.colour,
        halo.unwrap_or_default(),
        escaped(&text.content)
    )
}

fn points(places: &[Position]) -> String {
    let points = places.iter().map(|(x, y)| format!("{},{}", number(*x), number(*y)));
    points.collect::<Vec<_>>().join(" ")
}

/// Formats a length in thousandths of a pixel.
fn number(length: f64) -> String {
    let text = format!("{length:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Escapes text for an element, and replaces the characters that XML does not permit.
fn escaped(text: &str) -> String {
    let text = redact::printable(text).replace(['\u{fffe}', '\u{ffff}'], " ");
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_only_text() {
        let text = "</text><script>1 && \u{0}\u{1b}\u{ffff}2</script>";
        assert_eq!(escaped(text), "&lt;/text&gt;&lt;script&gt;1 &amp;&amp;    2&lt;/script&gt;");
    }

    #[test]
    fn lengths_are_short() {
        assert_eq!([1.0, 0.5, 10.1234, -0.0].map(number), ["1", "0.5", "10.123", "-0"]);
    }
}
