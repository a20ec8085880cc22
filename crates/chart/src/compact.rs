//! Makes the SVG of the drawing library smaller: it draws each dash as an element of its own, with a point for each
//! point of the curve.

use std::fmt::Write as _;

const BEGIN: &str = "<polyline ";
const POINTS: &str = " points=\"";
const END: &str = " \"/>";

/// A point in pixels.
type Point = (i32, i32);

/// Joins polylines of the same looks that follow each other to one path, and leaves out points on the way straight on.
/// The picture stays the same.
pub(super) fn compact(document: &str) -> String {
    let mut out = String::with_capacity(document.len() / 2);
    // The attributes of the path that is open.
    let mut open = None;
    for line in document.lines() {
        let Some((looks, points)) = polyline(line) else {
            close(&mut out, &mut open);
            out.push_str(line);
            out.push('\n');
            continue;
        };
        if open != Some(looks) {
            close(&mut out, &mut open);
            let _ = write!(out, "<path {looks} d=\"");
            open = Some(looks);
        }
        draw(&mut out, &points);
    }
    close(&mut out, &mut open);
    out
}

fn close(out: &mut String, open: &mut Option<&str>) {
    if open.take().is_some() {
        out.push_str("\"/>\n");
    }
}

/// The attributes of a polyline but its points, and these; `None` if the line is something else.
fn polyline(line: &str) -> Option<(&str, Vec<Point>)> {
    let (looks, points) = line.strip_prefix(BEGIN)?.strip_suffix(END)?.split_once(POINTS)?;
    let point = |text: &str| {
        let (x, y) = text.split_once(',')?;
        Some((x.parse().ok()?, y.parse().ok()?))
    };
    Some((looks, points.split_whitespace().map(point).collect::<Option<_>>()?))
}

/// Writes a line through points: to the first one, then by the steps between them.
fn draw(out: &mut String, points: &[Point]) {
    let Some((first, rest)) = points.split_first() else { return };
    let _ = write!(out, "M{} {}", first.0, first.1);
    let (mut from, mut step) = (*first, (0, 0));
    // Of zero length, so that a dot is drawn where there is nothing else.
    let is_dot = rest.iter().all(|point| point == first);
    for to in rest {
        let next = (to.0 - from.0, to.1 - from.1);
        if goes_on(step, next) {
            step = (step.0 + next.0, step.1 + next.1);
        } else {
            write_step(out, step);
            step = next;
        }
        from = *to;
    }
    if is_dot {
        out.push_str("l0 0");
    } else {
        write_step(out, step);
    }
}

/// Whether the second step goes in the direction of the first, or stays.
fn goes_on(step: Point, next: Point) -> bool {
    let is_straight = step.0 * next.1 == step.1 * next.0;
    step == (0, 0) || next == (0, 0) || (is_straight && step.0 * next.0 >= 0 && step.1 * next.1 >= 0)
}

fn write_step(out: &mut String, (x, y): Point) {
    let _ = match (x, y) {
        (0, 0) => Ok(()),
        (x, 0) => write!(out, "h{x}"),
        (0, y) => write!(out, "v{y}"),
        (x, y) => write!(out, "l{x} {y}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_of_one_curve_become_one_path_without_points_on_the_way() {
        let document = "<svg>\n\
            <polyline stroke=\"#1\" points=\"0,5 1,5 1,5 3,5 3,9 5,11 6,12 5,11 \"/>\n\
            <polyline stroke=\"#1\" points=\"9,9 9,9 \"/>\n\
            <polyline stroke=\"#2\" points=\"7,7 8,7 \"/>\n\
            <line x1=\"1\"/>\n</svg>\n";
        let expected = "<svg>\n\
            <path stroke=\"#1\" d=\"M0 5h3v4l3 3l-1 -1M9 9l0 0\"/>\n\
            <path stroke=\"#2\" d=\"M7 7h1\"/>\n\
            <line x1=\"1\"/>\n</svg>\n";
        assert_eq!(compact(document), expected);
    }

    #[test]
    fn what_is_no_polyline_of_points_stays() {
        let document = "<polyline points=\"a,b \"/>\n<text>\n<polyline \n</text>\n";
        assert_eq!(compact(document), document);
    }
}
