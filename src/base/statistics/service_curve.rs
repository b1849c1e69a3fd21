//! How long a server takes for a request while so many are in flight, and how many it thus serves.
//!
//! By Little's law, n requests in flight that take R(n) seconds each are n / R(n) per second, whether
//! the load keeps n in flight or sends at a rate. Two curves are known for R:
//!
//! - the universal scalability law, R(n) = S (1 + σ (n - 1) + κ n (n - 1)): contention σ makes
//!   requests wait for each other, and coherency κ makes each cost more the more there are (Gunther,
//!   "Guerrilla Capacity Planning", 2007, chapter 4);
//! - slots, R(n) = S (1 + (n / c)^b)^(1/b): between the asymptotes of a closed queueing network, whose c slots
//!   take S seconds for a request (Lazowska et al., "Quantitative System Performance", 1984, chapter 5). A load
//!   that keeps n in flight follows the asymptotes, max(S, S n / c), if all services are alike; with services
//!   that vary, and arrivals at random, requests wait before n is c, so that the bend is round.

use super::linear;

/// Number of numbers of slots that are tried between the lowest and the highest load.
const STEPS: u32 = 400;

/// The bends that are tried.
const BENDS: [f64; 5] = [f64::INFINITY, 16.0, 8.0, 4.0, 2.0];

/// Share of what slots can do at which they are called full.
const FULL: f64 = 0.99;

/// A curve of the seconds that a request takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ServiceCurve {
    /// The universal scalability law: S, S σ and S κ.
    Scalability([f64; 3]),
    /// Slots: S, c and b, which is infinite for a sharp bend.
    Slots { seconds: f64, slots: f64, bend: f64 },
}

impl ServiceCurve {
    /// Returns the seconds that a request takes while `n` are in flight; on average less than one means
    /// that a request is alone.
    #[must_use]
    pub fn seconds(&self, n: f64) -> f64 {
        let n = n.max(1.0);
        match self {
            Self::Scalability(terms) => {
                terms.iter().zip(basis(n)).map(|(term, value)| term * value).sum()
            }
            Self::Slots { seconds, slots, bend } => seconds * bent(n / slots, *bend),
        }
    }

    /// Returns the requests per second while `n` are in flight.
    #[must_use]
    pub fn rate(&self, n: f64) -> f64 {
        n / self.seconds(n)
    }

    /// Returns the highest rate for up to `most` in flight, and the lowest number in flight at which it
    /// is reached.
    #[must_use]
    pub fn peak(&self, most: f64) -> (f64, f64) {
        let n = match self {
            // The derivative of n / R(n) is 0 where S (1 - σ) = S κ n².
            Self::Scalability([service, contention, coherency]) if *coherency > 0.0 => {
                ((service - contention).max(0.0) / coherency).sqrt()
            }
            Self::Scalability(_) => most,
            Self::Slots { slots, bend, .. } => {
                slots * (FULL.powf(-bend) - 1.0).powf(-bend.recip()).max(1.0)
            }
        };
        let n = n.clamp(1.0_f64.min(most), most);
        // A round bend comes close to what the slots can do, but does not reach it.
        (n, self.rate(if matches!(self, Self::Slots { .. }) { most } else { n }))
    }

    /// Returns its coefficients: the milliseconds of a request alone, the contention and the coherency; or the
    /// number of slots, and their milliseconds.
    #[must_use]
    pub fn terms(&self) -> Vec<f64> {
        match self {
            Self::Scalability([service, contention, coherency]) => {
                vec![1e3 * service, contention / service, coherency / service]
            }
            Self::Slots { seconds, slots, .. } => vec![*slots, 1e3 * seconds],
        }
    }

    /// Fits both curves to `points` of the number in flight and the seconds, each with its error when it
    /// is left out; the better one first. Empty if there are fewer than four points, which do not determine
    /// about the error.
    #[must_use]
    pub fn fit(points: &[(f64, f64)]) -> Vec<(Self, f64)> {
        type Fit = fn(&[(f64, f64)]) -> Option<ServiceCurve>;
        let fits: [Fit; 2] = [scalability, |points| slots(points, &BENDS)];
        let tested = |fit: &Fit| {
            let error = |left_out: usize| {
                let mut rest = points.to_vec();
                let (n, seconds) = rest.remove(left_out);
                Some((fit(&rest)?.seconds(n) / seconds).ln().powi(2))
            };
            let errors: Vec<f64> = (0..points.len()).map(error).collect::<Option<_>>()?;
            let error = (errors.iter().sum::<f64>() / errors.len() as f64).sqrt();
            Some((fit(points)?, error)).filter(|(_, error)| error.is_finite())
        };
        let mut found: Vec<_> = match points.len() {
            0..4 => Vec::new(),
            _ => fits.iter().filter_map(tested).collect(),
        };
        found.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        found
    }

    /// Fits a curve of the same kind to other points.
    #[must_use]
    pub fn again(&self, points: &[(f64, f64)]) -> Option<Self> {
        match self {
            Self::Scalability(_) => scalability(points),
            Self::Slots { bend, .. } => slots(points, &[*bend]),
        }
    }
}

fn basis(n: f64) -> [f64; 3] {
    [1.0, n - 1.0, n * (n - 1.0)]
}

/// The universal scalability law with the least squares of relative errors, of those with σ and κ of at
/// least 0: one of the fits in which some of them are 0.
fn scalability(points: &[(f64, f64)]) -> Option<ServiceCurve> {
    let used: [&[usize]; 4] = [&[0], &[0, 1], &[0, 2], &[0, 1, 2]];
    let fits = used.iter().filter_map(|used| {
        let mut system = vec![vec![0.0; used.len() + 1]; used.len()];
        for (n, seconds) in points {
            let values = basis(*n);
            for (row, equation) in used.iter().zip(&mut system) {
                for (column, sum) in used.iter().zip(equation.iter_mut()) {
                    *sum += values[*row] * values[*column] / seconds.powi(2);
                }
                equation[used.len()] += values[*row] / seconds;
            }
        }
        let mut terms = [0.0; 3];
        for (at, term) in used.iter().zip(linear::solved(system)?) {
            terms[*at] = term;
        }
        let is_possible = terms[0] > 0.0 && terms.iter().all(|term| *term >= 0.0);
        is_possible.then_some(ServiceCurve::Scalability(terms))
    });
    fits.min_by(|a, b| squares(a, points).total_cmp(&squares(b, points)))
}

/// Returns R(n) / S of slots, where `x` is n / c.
fn bent(x: f64, bend: f64) -> f64 {
    if bend.is_finite() { (1.0 + x.powf(bend)).powf(bend.recip()) } else { x.max(1.0) }
}

/// Slots with the least squares of relative errors: S for each number of slots and each bend, of which the
/// best is taken.
fn slots(points: &[(f64, f64)], bends: &[f64]) -> Option<ServiceCurve> {
    let least = points.iter().map(|(n, _)| *n).reduce(f64::min).filter(|least| *least > 0.0)?;
    let most = points.iter().map(|(n, _)| *n).reduce(f64::max)?;
    let curve = |bend: f64, step: u32| {
        let slots = least * (most / least).powf(f64::from(step) / f64::from(STEPS));
        let shape = |n: f64| bent(n / slots, bend);
        let ratio: f64 = points.iter().map(|(n, seconds)| shape(*n) / seconds).sum();
        let square: f64 = points.iter().map(|(n, seconds)| (shape(*n) / seconds).powi(2)).sum();
        ServiceCurve::Slots { seconds: ratio / square, slots, bend }
    };
    let fits = bends.iter().flat_map(|bend| (0..=STEPS).map(move |step| curve(*bend, step)));
    fits.min_by(|a, b| squares(a, points).total_cmp(&squares(b, points)))
}

fn squares(curve: &ServiceCurve, points: &[(f64, f64)]) -> f64 {
    points.iter().map(|(n, seconds)| (curve.seconds(*n) / seconds - 1.0).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::simulation::{Arrivals, Server, Service, Simulated};

    const LOADS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 24.0, 32.0, 64.0];

    fn points(seconds: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        LOADS.iter().map(|n| (*n, seconds(*n))).collect()
    }

    #[test]
    fn the_curve_of_the_data_is_chosen() {
        // S = 0.1, σ = 0.02, κ = 0.0005: the peak is at √(0.98 / 0.0005) = 44.3.
        let law = |n: f64| 0.1 * (1.0 + 0.02 * (n - 1.0) + 0.0005 * n * (n - 1.0));
        let fits = ServiceCurve::fit(&points(law));
        let ServiceCurve::Scalability(terms) = fits[0].0 else { panic!("{fits:?}") };
        let expected = [0.1, 0.002, 0.000_05];
        assert!(terms.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9), "{terms:?}");
        let (n, rate) = fits[0].0.peak(64.0);
        assert!((n - 0.98_f64.sqrt() / 0.0005_f64.sqrt()).abs() < 1e-3, "{n}");
        assert!((rate - n / law(n)).abs() < 1e-6);
        let fits = ServiceCurve::fit(&points(|n| 0.05 * (n / 20.0).max(1.0)));
        let ServiceCurve::Slots { seconds, slots, .. } = fits[0].0 else { panic!("{fits:?}") };
        assert!((seconds / 0.05 - 1.0).abs() < 0.01 && (slots / 20.0 - 1.0).abs() < 0.01);
        assert!(fits[0].1 < fits[1].1, "{fits:?}");
        assert!(ServiceCurve::fit(&points(law)[..3]).is_empty());
    }

    #[test]
    fn a_simulated_server_is_predicted_at_a_load_that_was_left_out() {
        for service in [Service::Constant, Service::Exponential, Service::Lognormal(0.5)] {
            let server = Server::new(16, 0.1, service);
            let mean = |n: f64| {
                let run = server.run(Arrivals::Closed(n as usize), 4000, n as u64);
                run.iter().map(Simulated::latency).sum::<f64>() / run.len() as f64
            };
            let (curve, error) = ServiceCurve::fit(&points(mean))[0];
            assert!(error < 0.1, "{service:?}: {error}");
            let (found, truth) = (curve.seconds(48.0), mean(48.0));
            assert!((found / truth - 1.0).abs() < 0.05, "{service:?}: {found} {truth}");
            let (_, rate) = curve.peak(64.0);
            assert!((rate / server.capacity() - 1.0).abs() < 0.05, "{service:?}: {rate}");
        }
    }
}
