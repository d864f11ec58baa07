//! Non-uniform draws, last names, and the inputs of transactions.

use super::scale::{DISTRICTS, Scale};
use crate::rng::Rng;

/// The syllables of last names (clause 4.3.2.3).
const SYLLABLES: [&str; 10] = [
    "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING",
];

/// Last names that there are.
const NAMES: u64 = 1000;

/// The constant of last names while loading. That of a run must differ from it by 65 to 119, but by neither 96 nor 112
/// (clause 2.1.6.1).
const NAME_LOAD: u64 = 33;

/// The last name of a number below 1000.
pub(super) fn last_name(number: u64) -> String {
    let digit = |at: u64| SYLLABLES[usize::try_from(number / at % 10).unwrap_or(0)];
    [digit(100), digit(10), digit(1)].concat()
}

/// A number from `first` to `last`, some of them more often than others: NURand of clause 2.1.6.
fn non_uniform(rng: &mut Rng, (a, c): (u64, u64), first: u64, last: u64) -> u64 {
    let drawn = rng.between(0, a) | rng.between(first, last);
    (drawn + c) % (last - first + 1) + first
}

/// How a customer is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Who {
    Id(u64),
    LastName(String),
}

/// A line of a new order.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub item: u64,
    pub supply: u64,
    pub quantity: i64,
}

/// The input of a new order.
#[derive(Debug, Clone)]
pub(super) struct NewOrder {
    pub w: u64,
    pub d: u64,
    pub customer: u64,
    pub lines: Vec<Line>,
    pub date: u64,
}

/// The input of a payment.
#[derive(Debug, Clone)]
pub(super) struct Payment {
    pub w: u64,
    pub d: u64,
    /// Warehouse and district of the customer.
    pub customer_at: (u64, u64),
    pub who: Who,
    /// In cents.
    pub amount: i64,
    pub date: u64,
}

/// What a run draws from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Draws {
    scale: Scale,
    /// The constants of names, customers and items.
    name: u64,
    customer: u64,
    item: u64,
}

impl Draws {
    pub fn new(scale: Scale, seed: u64) -> Draws {
        let mut rng = Rng::of_part(seed, 1 << 40);
        let name = loop {
            let difference = rng.between(65, 119);
            if !matches!(difference, 96 | 112) {
                break NAME_LOAD + difference;
            }
        };
        Draws {
            scale,
            name,
            customer: rng.between(0, 1023),
            item: rng.between(0, 8191),
        }
    }

    /// Last names that customers have.
    fn names(&self) -> u64 {
        self.scale.customers.min(NAMES)
    }

    pub fn customer_id(&self, rng: &mut Rng) -> u64 {
        non_uniform(rng, (1023, self.customer), 1, self.scale.customers)
    }

    /// 60 % by last name.
    pub fn customer(&self, rng: &mut Rng) -> Who {
        match rng.percent(60) {
            true => {
                let number = non_uniform(rng, (255, self.name), 0, self.names() - 1);
                Who::LastName(last_name(number))
            }
            false => Who::Id(self.customer_id(rng)),
        }
    }

    /// Another warehouse, or this one if there is no other.
    fn other(&self, rng: &mut Rng, w: u64) -> u64 {
        if self.scale.warehouses == 1 {
            return w;
        }
        let other = rng.between(1, self.scale.warehouses - 1);
        other + u64::from(other >= w)
    }

    pub fn new_order(&self, rng: &mut Rng, w: u64, d: u64) -> NewOrder {
        let rolls_back = rng.percent(1);
        let line = |rng: &mut Rng| Line {
            item: non_uniform(rng, (8191, self.item), 1, self.scale.items),
            supply: match rng.percent(1) {
                true => self.other(rng, w),
                false => w,
            },
            quantity: rng.between(1, 10).cast_signed(),
        };
        let count = rng.between(5, 15);
        let mut lines: Vec<Line> = (0..count).map(|_| line(rng)).collect();
        if let Some(last) = lines.last_mut().filter(|_| rolls_back) {
            // An item that there is not.
            last.item = self.scale.items + 1;
        }
        NewOrder {
            w,
            d,
            customer: self.customer_id(rng),
            lines,
            date: rng.next() >> 16,
        }
    }

    pub fn payment(&self, rng: &mut Rng, w: u64, d: u64) -> Payment {
        let customer_at = match rng.percent(85) {
            true => (w, d),
            false => (self.other(rng, w), rng.between(1, DISTRICTS)),
        };
        Payment {
            w,
            d,
            customer_at,
            who: self.customer(rng),
            amount: rng.between(100, 500_000).cast_signed(),
            date: rng.next() >> 16,
        }
    }
}

/// The last name of a customer that is loaded: one each of the first thousand, then non-uniform.
pub(super) fn name_at_first(rng: &mut Rng, customer: u64) -> String {
    match customer <= NAMES {
        true => last_name(customer - 1),
        false => last_name(non_uniform(rng, (255, NAME_LOAD), 0, NAMES - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_specification() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(40), "BARPRESBAR");
        assert_eq!(last_name(999), "EINGEINGEING");
    }

    #[test]
    fn draws_are_as_often_as_they_should_be() {
        let scale = Scale {
            warehouses: 7,
            items: 100_000,
            customers: 3000,
            new_orders: 900,
        };
        let draws = Draws::new(scale, 1);
        let difference = draws.name - NAME_LOAD;
        assert!((65..=119).contains(&difference) && difference != 96 && difference != 112);
        let mut rng = Rng::of_part(9, 9);
        let (mut remote_lines, mut lines, mut back, mut remote, mut named) = (0, 0, 0, 0, 0);
        const COUNT: usize = 20_000;
        for _ in 0..COUNT {
            let order = draws.new_order(&mut rng, 3, 5);
            assert!((5..=15).contains(&order.lines.len()) && (1..=3000).contains(&order.customer));
            assert!(
                order
                    .lines
                    .iter()
                    .all(|line| (1..=7).contains(&line.supply))
            );
            lines += order.lines.len();
            remote_lines += order.lines.iter().filter(|line| line.supply != 3).count();
            let wrong = order
                .lines
                .iter()
                .filter(|line| line.item > 100_000)
                .count();
            back += wrong;
            let payment = draws.payment(&mut rng, 3, 5);
            remote += usize::from(payment.customer_at.0 != 3);
            named += usize::from(matches!(payment.who, Who::LastName(_)));
        }
        let near = |count: usize, of: usize, percent: usize| {
            let (low, high) = (of * percent * 8 / 1000, of * percent * 12 / 1000);
            assert!(
                (low..=high).contains(&count),
                "{count} of {of}, {percent} %"
            );
        };
        near(back, COUNT, 1);
        near(remote_lines, lines, 1);
        near(remote, COUNT, 15);
        near(named, COUNT, 60);
    }
}
