//! Finding a place in what ascends, from a guess.

/// The last of places 0 to `count` (without it) that is not behind what is sought; 0 if all are. Looks from
/// `guess` on, in steps that double: at few places if the guess is nearly right, and at no more than
/// twice as many as a bisection does whatever it is.
pub(super) fn last_not_behind(guess: u32, count: u32, is_behind: impl Fn(u32) -> bool) -> u32 {
    let guess = guess.min(count.saturating_sub(1));
    let (mut low, mut high);
    let mut step = 1;
    if is_behind(guess) {
        high = guess;
        low = guess.saturating_sub(step);
        while low > 0 && is_behind(low) {
            high = low;
            step *= 2;
            low = low.saturating_sub(step);
        }
    } else {
        low = guess;
        high = guess.saturating_add(step).min(count);
        while high < count && !is_behind(high) {
            low = high;
            step *= 2;
            high = high.saturating_add(step).min(count);
        }
    }
    while high.saturating_sub(low) > 1 {
        let middle = low.midpoint(high);
        if is_behind(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn every_place_is_found_from_every_guess() {
        for count in 1..40 {
            for place in 0..count {
                for guess in 0..count + 3 {
                    assert_eq!(last_not_behind(guess, count, |i| i > place), place);
                }
            }
            assert_eq!(last_not_behind(count / 2, count, |_| true), 0);
        }
    }

    #[test]
    fn a_good_guess_looks_at_few_places() {
        let looks = Cell::new(0);
        let is_behind = |i: u32| {
            looks.set(looks.get() + 1);
            i > 70_000
        };
        assert_eq!(last_not_behind(70_000, 1 << 20, is_behind), 70_000);
        assert_eq!(looks.get(), 2);
        assert_eq!(last_not_behind(70_003, 1 << 20, is_behind), 70_000);
        assert!(looks.get() < 10);
    }
}
