//! Sums of consecutive values.

/// Number of sums from which two become one.
const MANY: usize = 1 << 18;

/// Sums of consecutive values, which need little memory: as long as there are few values, each is a
/// sum; otherwise a sum is that of several.
#[derive(Debug, Clone)]
pub(crate) struct Sums {
    added: Vec<f64>,
    /// Number of values.
    count: usize,
    /// Number of values of a sum; the last one may have fewer.
    size: usize,
    /// Number of sums from which two become one; even.
    most: usize,
}

impl Sums {
    fn with_most(most: usize) -> Self {
        Self { added: Vec::new(), count: 0, size: 1, most }
    }

    /// Adds the next value.
    pub(crate) fn push(&mut self, value: f64) {
        let is_new = self.count.is_multiple_of(self.size);
        if is_new && self.added.len() >= self.most {
            self.added = self.added.chunks(2).map(|pair| pair.iter().sum()).collect();
            self.size *= 2;
        }
        match self.added.last_mut().filter(|_| !self.count.is_multiple_of(self.size)) {
            Some(last) => *last += value,
            None => self.added.push(value),
        }
        self.count += 1;
    }

    /// Returns the sums.
    pub(crate) fn sums(&self) -> &[f64] {
        &self.added
    }

    /// Returns the number of values.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// Returns the number of values of a sum.
    pub(crate) const fn size(&self) -> usize {
        self.size
    }
}

impl Default for Sums {
    fn default() -> Self {
        Self::with_most(MANY)
    }
}

impl Extend<f64> for Sums {
    fn extend<I: IntoIterator<Item = f64>>(&mut self, values: I) {
        values.into_iter().for_each(|value| self.push(value));
    }
}

impl FromIterator<f64> for Sums {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut sums = Self::default();
        sums.extend(values);
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_values_are_added_up() {
        let mut sums = Sums::with_most(8);
        sums.extend((1..=100).map(f64::from));
        // 16 values in each; the last has 97 to 100.
        assert_eq!(sums.sums(), [136.0, 392.0, 648.0, 904.0, 1160.0, 1416.0, 394.0]);
        assert_eq!((sums.count(), sums.size()), (100, 16));
    }
}
