//! Users who each send turns at equal intervals.

use base::units::Nanos;

use super::Shard;

/// The users of a phase: when they send, and which sessions are theirs.
///
/// All users together send at a constant rate, one after the other: the `nth` turn of user `u` of
/// `U` is due `(u + nth·U) / rate` seconds after the start. First turns are therefore `1/rate`
/// apart, and the turns of each user `U/rate`. A limit on requests applies to these turns in order,
/// across all users.
#[derive(Debug, Clone, Copy)]
pub struct Users {
    rate: f64,
    count: u64,
    requests: Option<u64>,
    shard: Shard,
}

impl Users {
    /// Creates `count` users who send `rate` turns per second together, up to `requests` in total.
    #[must_use]
    pub const fn new(rate: f64, count: u64, requests: Option<u64>) -> Self {
        Self { rate, count, requests, shard: Shard::WHOLE }
    }

    /// Restricts the users to those of `shard`.
    #[must_use]
    pub const fn shard(self, shard: Shard) -> Self {
        Self { shard, ..self }
    }

    /// Returns an iterator over the users.
    pub fn iter(&self) -> impl Iterator<Item = u64> + use<> {
        let shard = self.shard;
        (0..shard.share(self.count)).map(move |nth| shard.nth(nth))
    }

    /// Returns when the `nth` turn of user `user`, counted over all of its sessions, is due; `None`
    /// past the last turn.
    #[must_use]
    pub fn due(&self, user: u64, nth: u64) -> Option<Nanos> {
        let turn = self.in_turn(user, nth);
        let is_sent = self.requests.is_none_or(|requests| turn < requests);
        is_sent.then(|| Nanos::from_seconds(turn as f64 / self.rate))
    }

    /// Returns the number, from 0, of the `nth` session of user `user`.
    #[must_use]
    pub const fn session(&self, user: u64, nth: u64) -> u64 {
        self.in_turn(user, nth)
    }

    /// Returns how many of the first `total` turns or sessions belong to these users.
    #[must_use]
    pub fn turns_of(&self, total: u64) -> u64 {
        let users = self.count.max(1);
        let (rounds, rest) = (total / users, total % users);
        rounds * self.shard.share(users) + self.shard.share(rest)
    }

    /// Returns the overall position of the `nth` item of `user`; the users alternate.
    const fn in_turn(&self, user: u64, nth: u64) -> u64 {
        user.saturating_add(nth.saturating_mul(self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn first_turns_are_staggered_and_later_ones_keep_the_gap() {
        // 4 users at 2 per second: 0.5 s apart, each with a turn every 2 s.
        let users = Users::new(2.0, 4, Some(15));
        let due = |user, nth| users.due(user, nth).map(Nanos::as_seconds);
        let first: Vec<f64> = users.iter().filter_map(|user| due(user, 0)).collect();
        assert_eq!(first, [0.0, 0.5, 1.0, 1.5]);
        let turns: Vec<f64> = (0..).map_while(|nth| due(3, nth)).collect();
        assert_eq!(turns, [1.5, 3.5, 5.5], "the 16th turn is one too many");
        assert_eq!((users.session(3, 0), users.session(3, 2)), (3, 11));
    }

    proptest! {
        #[test]
        fn turns_are_those_of_each_user(
            count in 1_u64..40, total in 0_u64..400, shards in 1_u64..9, index in 0_u64..9,
        ) {
            let users = Users::new(1.0, count, Some(total)).shard(Shard::new(index % shards, shards));
            let sent = |user| (0..=total).take_while(|nth| users.due(user, *nth).is_some()).count();
            let turns: usize = users.iter().map(sent).sum();
            prop_assert_eq!(users.turns_of(total), turns as u64);
        }
    }
}
