//! Frames of generated videos, as red, green and blue bytes, row by row.

use std::f64::consts::{FRAC_PI_2, TAU};

use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;

use super::video::{Scene, VideoClip};

/// The frames of a video, each drawn on demand.
pub(super) struct Frames {
    picture: Picture,
    drawn: Drawn,
    count: u32,
    next: u32,
}

/// The moving objects, and where they start.
enum Drawn {
    Shapes([Shape; 3]),
    Clock { first_angle: f64 },
    Noise(ChaCha8Rng),
}

/// An object that moves at constant speed. If it leaves on one side, it returns on the opposite
/// side.
struct Shape {
    is_round: bool,
    colour: Colour,
    radius: f64,
    /// Start position from the upper left corner, as a fraction of width and height, in [0, 1).
    start: (f64, f64),
    /// Distance in the whole video, as a multiple of width and height.
    way: (f64, f64),
}

type Colour = [u8; 3];

const BLACK: Colour = [0; 3];
const WHITE: Colour = [255; 3];
const RED: Colour = [255, 0, 0];
const GREEN: Colour = [0, 255, 0];
const BLUE: Colour = [0, 0, 255];
const YELLOW: Colour = [255, 255, 0];
const DARK: Colour = [32; 3];
const DIM: Colour = [64; 3];
const GREY: Colour = [128; 3];

/// Distance between two grid lines in pixels.
const GRID: u32 = 32;

impl Frames {
    /// Creates the frames of the video that `video` describes; `random` is used by this video only.
    pub(super) fn new(video: &VideoClip, mut random: ChaCha8Rng) -> Self {
        let drawn = match video.scene {
            Scene::MovingShapes => Drawn::Shapes(shapes(&mut random)),
            Scene::GridClock => Drawn::Clock { first_angle: TAU * random.random::<f64>() },
            Scene::Noise => Drawn::Noise(random),
        };
        let picture = Picture::new(video.width, video.height);
        Self { picture, drawn, count: video.frames(), next: 0 }
    }
}

/// Returns the same shapes as AIPerf, each at a random position.
fn shapes(random: &mut ChaCha8Rng) -> [Shape; 3] {
    let mut start = || (random.random(), random.random());
    [
        Shape { is_round: true, colour: RED, radius: 15.0, start: start(), way: (2.0, 0.0) },
        Shape { is_round: false, colour: GREEN, radius: 12.0, start: start(), way: (0.0, 2.0) },
        Shape { is_round: true, colour: BLUE, radius: 10.0, start: start(), way: (-1.5, -1.5) },
    ]
}

impl Iterator for Frames {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        if self.next >= self.count {
            return None;
        }
        // Fraction of the video's length, in [0, 1).
        let time = f64::from(self.next) / f64::from(self.count);
        self.next += 1;
        let picture = &mut self.picture;
        match &mut self.drawn {
            Drawn::Shapes(shapes) => picture.draw_shapes(shapes, time),
            Drawn::Clock { first_angle } => picture.draw_clock(*first_angle, time),
            Drawn::Noise(random) => random.fill_bytes(&mut picture.pixels),
        }
        Some(picture.pixels.clone())
    }
}

struct Picture {
    width: u32,
    height: u32,
    pixels: Vec<u8>,
}

impl Picture {
    fn new(width: u32, height: u32) -> Self {
        Self { width, height, pixels: vec![0; 3 * width as usize * height as usize] }
    }

    fn draw_shapes(&mut self, shapes: &[Shape], time: f64) {
        self.clear(BLACK);
        for shape in shapes {
            let along = |start: f64, way: f64, side: u32| {
                (start + way * time).rem_euclid(1.0) * f64::from(side)
            };
            let x = along(shape.start.0, shape.way.0, self.width);
            let y = along(shape.start.1, shape.way.1, self.height);
            let reach = shape.radius;
            self.paint((x, y), reach, shape.colour, |x, y| {
                !shape.is_round || x * x + y * y <= reach * reach
            });
        }
    }

    /// Draws a clock on a grid. Its long hand turns once during the video, and its short hand a
    /// twelfth of that.
    fn draw_clock(&mut self, first_angle: f64, time: f64) {
        self.clear(DARK);
        self.draw_grid();
        let centre = (f64::from(self.width / 2), f64::from(self.height / 2));
        let radius = f64::from(self.width.min(self.height) / 4);
        let angle = first_angle + TAU * time;
        self.draw_hand(centre, 0.6 * radius, angle / 12.0, 3.0, YELLOW);
        self.draw_hand(centre, 0.9 * radius, angle, 2.0, WHITE);
        self.paint(centre, radius + 1.0, GREY, |x, y| (x.hypot(y) - radius).abs() <= 1.0);
        self.paint(centre, 3.0, RED, |x, y| x * x + y * y <= 9.0);
    }

    fn draw_grid(&mut self) {
        let (width, height) = (self.width, self.height);
        for y in 0..height {
            let step = if y % GRID == 0 { 1 } else { GRID };
            (0..width).step_by(step as usize).for_each(|x| self.put(x, y, DIM));
        }
    }

    /// Draws a line from the centre; the angle 0 points up, and angles grow clockwise.
    fn draw_hand(
        &mut self,
        centre: (f64, f64),
        length: f64,
        angle: f64,
        thickness: f64,
        colour: Colour,
    ) {
        let (down, right) = (angle - FRAC_PI_2).sin_cos();
        self.paint(centre, length + thickness, colour, |x, y| {
            let along = x * right + y * down;
            let across = (x * down - y * right).abs();
            (0.0..=length).contains(&along) && across <= thickness / 2.0
        });
    }

    fn clear(&mut self, colour: Colour) {
        self.pixels.as_chunks_mut().0.fill(colour);
    }

    /// Paints the pixels for which `is_in`, called with the position relative to the centre,
    /// returns true. No such pixel is further away than `reach` in either direction.
    fn paint(
        &mut self,
        centre: (f64, f64),
        reach: f64,
        colour: Colour,
        is_in: impl Fn(f64, f64) -> bool,
    ) {
        let within = |middle: f64, side: u32| {
            let end = ((middle + reach).floor() + 1.0).clamp(0.0, f64::from(side));
            (middle - reach).ceil().max(0.0) as u32..end as u32
        };
        for y in within(centre.1, self.height) {
            for x in within(centre.0, self.width) {
                if is_in(f64::from(x) - centre.0, f64::from(y) - centre.1) {
                    self.put(x, y, colour);
                }
            }
        }
    }

    fn put(&mut self, x: u32, y: u32, colour: Colour) {
        let place = y as usize * self.width as usize + x as usize;
        if let Some(pixel) = self.pixels.as_chunks_mut().0.get_mut(place) {
            *pixel = colour;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Seed;

    fn frames(scene: Scene, seed: u64) -> Vec<Vec<u8>> {
        let video = VideoClip { scene, ..VideoClip::small() };
        Frames::new(&video, Seed(seed).stream("test")).collect()
    }

    /// Returns the pixel of a picture that is 64 pixels wide.
    fn pixel(frame: &[u8], x: usize, y: usize) -> Colour {
        *frame[3 * (64 * y + x)..].first_chunk().unwrap()
    }

    #[test]
    fn each_frame_is_another_and_the_seed_makes_the_same() {
        for scene in [Scene::MovingShapes, Scene::GridClock, Scene::Noise] {
            let drawn = frames(scene, 1);
            // One second with four frames of 64 by 48 pixels.
            assert_eq!(drawn.len(), 4);
            assert!(drawn.iter().all(|frame| frame.len() == 64 * 48 * 3), "{scene:?}");
            assert!(drawn.windows(2).all(|two| two[0] != two[1]), "{scene:?}");
            assert_eq!(drawn, frames(scene, 1), "{scene:?}");
            assert_ne!(drawn, frames(scene, 2), "{scene:?}");
        }
    }

    #[test]
    fn shapes_are_as_large_as_they_are_and_go_their_way() {
        let mut picture = Picture::new(64, 48);
        let shape =
            |is_round, way| Shape { is_round, colour: RED, radius: 10.0, start: (0.5, 0.5), way };
        let count = |picture: &Picture| {
            let (pixels, _) = picture.pixels.as_chunks::<3>();
            pixels.iter().filter(|pixel| **pixel == RED).count()
        };
        let is_red = |picture: &Picture, x, y| pixel(&picture.pixels, x, y) == RED;
        picture.draw_shapes(&[shape(false, (0.0, 0.0))], 0.0);
        // 10 to either side of (32, 24), and the centre itself.
        assert_eq!(count(&picture), 21 * 21);
        assert!(is_red(&picture, 22, 14) && is_red(&picture, 42, 34));
        assert!(!is_red(&picture, 21, 24) && !is_red(&picture, 43, 24));
        picture.draw_shapes(&[shape(true, (0.0, 0.0))], 0.0);
        // The number of integer points within a circle of radius 10 (OEIS A000328).
        assert_eq!(count(&picture), 317);
        // A quarter of two widths is half a width: it leaves on the right and returns on the left.
        picture.draw_shapes(&[shape(true, (2.0, 0.0))], 0.25);
        assert!(is_red(&picture, 0, 24) && is_red(&picture, 10, 24));
        assert!(!is_red(&picture, 11, 24) && !is_red(&picture, 32, 24));
    }

    #[test]
    fn the_clock_has_its_hands_where_the_time_is() {
        let mut picture = Picture::new(64, 48);
        picture.draw_clock(0.0, 0.0);
        let at = |picture: &Picture, x, y| pixel(&picture.pixels, x, y);
        // Centre (32, 24), radius 12: the ring, the long hand pointing up, the dot.
        assert_eq!(at(&picture, 44, 24), GREY);
        assert_eq!(at(&picture, 32, 14), WHITE);
        assert_eq!(at(&picture, 40, 24), DARK);
        assert_eq!(at(&picture, 32, 24), RED);
        assert_eq!(at(&picture, 32, 0), DIM);
        assert_eq!(at(&picture, 31, 1), DARK);
        // A quarter of the video later the long hand points to the right.
        picture.draw_clock(0.0, 0.25);
        assert_eq!((at(&picture, 42, 24), at(&picture, 32, 14)), (WHITE, DIM));
    }

    proptest! {
        #[test]
        fn any_size_is_drawn(
            width in 1u32..100,
            height in 1u32..100,
            scene in prop::sample::select(vec![
                Scene::MovingShapes, Scene::GridClock, Scene::Noise,
            ]),
            seed in 0u64..u64::MAX,
        ) {
            let video = VideoClip { width, height, scene, ..VideoClip::small() };
            let drawn: Vec<_> = Frames::new(&video, Seed(seed).stream("test")).collect();
            prop_assert_eq!(drawn.len(), 4);
            let bytes = 3 * width as usize * height as usize;
            prop_assert!(drawn.iter().all(|frame| frame.len() == bytes));
        }
    }
}
