//! A chart as a PNG image: its SVG image, drawn on light ground.

use std::sync::{Arc, OnceLock};

use event::{Error, Result};
use resvg::{
    tiny_skia::{Pixmap, Transform},
    usvg::{Options, Tree, fontdb::Database},
};

/// How many pixels there are to a unit of the SVG image: enough for screens of high density.
const PIXELS: f32 = 2.0;
/// The family of the letters. The fonts are in the program, so images are the same on every machine.
const FAMILY: &str = "DejaVu Sans";

fn fonts() -> Arc<Database> {
    static FONTS: OnceLock<Arc<Database>> = OnceLock::new();
    let load = || {
        let mut fonts = Database::new();
        for face in [dejavu::sans::regular(), dejavu::sans::bold()] {
            fonts.load_font_data(face.to_vec());
        }
        fonts.set_sans_serif_family(FAMILY);
        Arc::new(fonts)
    };
    Arc::clone(FONTS.get_or_init(load))
}

/// Draws an SVG image of a chart.
///
/// # Errors
/// When the image cannot be drawn.
pub(crate) fn draw(image: &str) -> Result<Vec<u8>> {
    let options = Options { fontdb: fonts(), font_family: FAMILY.to_owned(), ..Options::default() };
    let failed = |why: String| Error::invalid(format!("the chart cannot be drawn as PNG: {why}"));
    let tree = Tree::from_str(image, &options).map_err(|error| failed(error.to_string()))?;
    let size = tree.size().to_int_size().scale_by(PIXELS).ok_or_else(|| failed("it has no size".into()))?;
    let mut pixels =
        Pixmap::new(size.width(), size.height()).ok_or_else(|| failed("it is too large".into()))?;
    resvg::render(&tree, Transform::from_scale(PIXELS, PIXELS), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Chart, Line, Point};

    /// The pixels of a chart of a line with two points.
    fn drawn(title: &str) -> Pixmap {
        let point = |day: &str, value| Point::new(day.parse::<event::Day>().unwrap().start(), value);
        let points = vec![point("2026-06-01", Some(0.5)), point("2026-06-02", Some(0.75))];
        let lines = vec![Line { name: "v1".into(), points }];
        let chart = Chart { title: title.into(), lines, ..Chart::default() };
        Pixmap::decode_png(&chart.png().unwrap()).unwrap()
    }

    #[test]
    fn the_ground_is_light_the_line_has_its_colour_and_letters_are_drawn() {
        let with_title = drawn("accuracy of <flights> & co");
        let colour = |pixels: &Pixmap, at: u32| {
            let pixel = pixels.pixel(at, at).unwrap();
            (pixel.red(), pixel.green(), pixel.blue(), pixel.alpha())
        };
        assert_eq!(colour(&with_title, 0), (255, 255, 255, 255));
        let blue = with_title.pixels().iter().filter(|pixel| (pixel.red(), pixel.blue()) == (0, 0xb2));
        assert!(blue.count() > 500, "the line is drawn");
        let without = drawn("");
        let changed = with_title.pixels().iter().zip(without.pixels()).filter(|(one, other)| one != other);
        assert!(changed.count() > 1_000, "the title is drawn");
    }
}
