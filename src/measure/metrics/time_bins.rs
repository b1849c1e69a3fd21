//! Events over time in bins of equal length, whose number is limited however long the time is.

use std::collections::VecDeque;

/// The content of a bin.
pub(crate) trait Join: Clone + Default {
    /// Adds what is in the next bin.
    fn join(&mut self, next: &Self);
}

/// Bins of time, which become longer when there would be too many.
#[derive(Debug, Clone)]
pub(crate) struct TimeBins<B> {
    bins: VecDeque<B>,
    /// Number of the first bin since the Unix epoch.
    first: u64,
    /// Logarithm of the length of a bin in nanoseconds.
    length: u32,
    most: u64,
}

impl<B: Join> TimeBins<B> {
    /// Creates at most `most` bins, of 2^`finest` nanoseconds as long as that is enough.
    pub(crate) const fn new(finest: u32, most: u64) -> Self {
        Self { bins: VecDeque::new(), first: 0, length: finest, most }
    }

    /// Returns the bins in order of time.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &B> {
        self.bins.iter()
    }

    /// Returns when the first bin begins, in nanoseconds since the Unix epoch.
    pub(crate) const fn start_ns(&self) -> u64 {
        self.first * self.length_ns()
    }

    /// Returns the length of a bin in nanoseconds.
    pub(crate) const fn length_ns(&self) -> u64 {
        1 << self.length
    }

    /// Returns the bin of a time in nanoseconds since the Unix epoch.
    pub(crate) fn at(&mut self, nanos: u64) -> &mut B {
        if self.bins.is_empty() {
            self.first = nanos >> self.length;
        }
        loop {
            let index = nanos >> self.length;
            let end = (self.first + self.bins.len() as u64).max(index + 1);
            let first = self.first.min(index);
            if end - first <= self.most {
                for _ in first..self.first {
                    self.bins.push_front(B::default());
                }
                self.first = first;
                self.bins.resize((end - first) as usize, B::default());
                return &mut self.bins[(index - first) as usize];
            }
            self.widen();
        }
    }

    /// Joins bins to ones of twice the length.
    fn widen(&mut self) {
        let mut wider: VecDeque<B> = VecDeque::new();
        for (index, bin) in (self.first..).zip(&self.bins) {
            match wider.back_mut() {
                Some(last) if index % 2 == 1 => last.join(bin),
                _ => wider.push_back(bin.clone()),
            }
        }
        (self.bins, self.first, self.length) = (wider, self.first / 2, self.length + 1);
    }
}
