//! A line of numbers as a line of small bars.

/// From nothing to full. Zero has its own sign, so that silence is seen.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The last `width` values, scaled so that `top` is the tallest bar. A missing value is a space.
pub fn recent(values: &[Option<f64>], top: f64, width: usize) -> String {
    let skip = values.len().saturating_sub(width);
    values[skip..].iter().map(|value| bar(*value, top)).collect()
}

/// All values in at most `width` bars: where there are more, each bar is a mean of its share.
pub fn whole(values: &[Option<f64>], top: f64, width: usize) -> String {
    if values.len() <= width {
        return recent(values, top, width);
    }
    (0..width)
        .map(|i| {
            let (from, to) = (i * values.len() / width, (i + 1) * values.len() / width);
            let known: Vec<f64> =
                values[from..to.max(from + 1)].iter().flatten().copied().collect();
            let mean = known.iter().sum::<f64>() / known.len() as f64;
            bar(Some(mean), top)
        })
        .collect()
}

fn bar(value: Option<f64>, top: f64) -> char {
    match value {
        Some(v) if v.is_finite() && top.is_finite() && top > 0.0 => {
            // A cast saturates, so that a value below zero or above the top is the border's bar.
            BARS[((v / top * 8.0).ceil() as usize).clamp(1, 8) - 1]
        }
        Some(v) if v.is_finite() => BARS[0],
        _ => ' ',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(values: &[f64]) -> Vec<Option<f64>> {
        values.iter().copied().map(Some).collect()
    }

    #[test]
    fn eighths_of_the_top() {
        let values = some(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        assert_eq!(recent(&values, 8.0, 20), "▁▁▂▃▄▅▆▇█");
        assert_eq!(recent(&values, 8.0, 3), "▆▇█");
    }

    #[test]
    fn odd_values_do_no_harm() {
        let values = [Some(f64::NAN), None, Some(-3.0), Some(f64::INFINITY), Some(1e300)];
        assert_eq!(recent(&values, 1.0, 9), "  ▁ █");
        assert_eq!(recent(&some(&[1.0]), 0.0, 9), "▁");
        assert_eq!(recent(&[], 1.0, 9), "");
        assert_eq!(whole(&some(&[1.0, 2.0]), 2.0, 0), "");
    }

    #[test]
    fn more_values_than_room_become_means() {
        let values = some(&[8.0, 8.0, 0.0, 8.0, 4.0, 4.0]);
        assert_eq!(whole(&values, 8.0, 3), "█▄▄");
    }
}
