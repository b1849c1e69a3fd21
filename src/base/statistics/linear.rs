//! Systems of linear equations.

/// The share of its row's largest coefficient at which what is left of a coefficient is rounding.
const ROUNDING: f64 = 1e-12;

/// Solves linear equations, each with its right side as the last element, by elimination with partial
/// pivoting; `None` if they do not have exactly one solution.
pub fn solved(mut system: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let size = system.len();
    let largest = |row: &Vec<f64>| row[..size].iter().fold(0.0, |most, it| it.abs().max(most));
    let mut scales: Vec<f64> = system.iter().map(largest).collect();
    for column in 0..size {
        let pivot = (column..size)
            .max_by(|a, b| system[*a][column].abs().total_cmp(&system[*b][column].abs()))?;
        system.swap(column, pivot);
        scales.swap(column, pivot);
        let leading = system[column].clone();
        if leading[column].abs() <= ROUNDING * scales[column] {
            return None;
        }
        for row in (0..size).filter(|row| *row != column) {
            let factor = system[row][column] / leading[column];
            for (value, above) in system[row].iter_mut().zip(&leading) {
                *value -= factor * above;
            }
        }
    }
    Some(system.iter().enumerate().map(|(row, values)| values[size] / values[row]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_solution_is_found() {
        // x + 2y = 8, 3x − y = 3.
        assert_eq!(solved(vec![vec![1.0, 2.0, 8.0], vec![3.0, -1.0, 3.0]]), Some(vec![2.0, 3.0]));
        // The first coefficient is 0, so that the equations change places.
        assert_eq!(solved(vec![vec![0.0, 2.0, 6.0], vec![4.0, 0.0, 8.0]]), Some(vec![2.0, 3.0]));
        assert_eq!(solved(Vec::new()), Some(Vec::new()));
    }

    #[test]
    fn none_or_many_are_not() {
        assert_eq!(solved(vec![vec![1.0, 2.0, 3.0], vec![2.0, 4.0, 6.0]]), None);
        // Equal but for rounding: 0.1 + 0.2 is not 0.3.
        let almost = 0.1 + 0.2;
        assert_eq!(solved(vec![vec![0.3, 1.0, 1.0], vec![almost, 1.0, 2.0]]), None);
        assert_eq!(solved(vec![vec![0.0, 0.0, 1.0], vec![0.0, 1.0, 1.0]]), None);
    }
}
