//! What is written: pairs as an index of a database has them, and pairs without pattern.

/// Key and value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// Sorted pairs.
pub struct Data {
    pub pairs: Vec<Pair>,
}

fn mix(n: u64) -> u64 {
    let mut z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// 120 bytes: table and index as a database encodes them, then the columns of the index (city, shop, day
/// and time, status), then the row. Ten indexes, 60 cities, 4,000 shops, a month.
fn index_key(n: u64) -> Vec<u8> {
    const CITIES: [&str; 6] = [
        "Shanghai", "Beijing", "Chengdu", "Hangzhou", "Nanjing", "Xi'an",
    ];
    const DISHES: [&str; 8] = [
        "Noodle House",
        "Dumpling Bar",
        "Tea Garden",
        "Bakery",
        "Hot Pot",
        "Grill",
        "Kitchen",
        "Cafe",
    ];
    let draw = |salt: u64, of: u64| mix(n * 8 + salt) % of;
    let (shop, minute) = (draw(0, 4000), draw(1, 30 * 24 * 60));
    let city = CITIES[(shop % 6) as usize];
    let name = DISHES[(shop / 6 % 8) as usize];
    let mut key = Vec::with_capacity(120);
    key.push(b't');
    key.extend_from_slice(&(0x8000_0000_0000_0017u64 + draw(2, 10) / 5).to_be_bytes());
    key.extend_from_slice(b"_i");
    key.extend_from_slice(&(0x8000_0000_0000_0001u64 + draw(2, 10) % 5).to_be_bytes());
    let columns = format!(
        "{city:<10}{:02}|{name:<20}No.{shop:04}|2023-05-{:02}T{:02}:{:02}:{:02}|{:<10}|{:08x}",
        shop % 10,
        1 + minute / 1440,
        minute / 60 % 24,
        minute % 60,
        draw(3, 60),
        ["paid", "delivered", "cancelled"][draw(4, 3) as usize],
        draw(5, 1 << 32),
    );
    key.extend_from_slice(columns.as_bytes());
    key.resize(112, b' ');
    key.extend_from_slice(&n.to_be_bytes());
    key
}

impl Data {
    /// Pairs of so many bytes together.
    pub fn of(name: &str, bytes: usize) -> Data {
        let pair = |n: u64| match name {
            "index" => (index_key(n), mix(n).to_be_bytes().to_vec()),
            _ => {
                let key = [mix(2 * n), mix(2 * n + 1)].map(u64::to_be_bytes).concat();
                let value = (0..13).flat_map(|i| mix(n * 16 + i + 99).to_be_bytes());
                (key, value.take(100).collect())
            }
        };
        let (key, value) = pair(0);
        let count = bytes / (key.len() + value.len());
        let mut pairs: Vec<Pair> = (0..count as u64).map(pair).collect();
        pairs.sort_unstable();
        // Anew, one behind the other in memory: to fetch them is to cost little.
        let copied = pairs
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()));
        Data {
            pairs: copied.collect(),
        }
    }

    pub fn pair_bytes(&self) -> usize {
        self.pairs[0].0.len() + self.pairs[0].1.len()
    }

    pub fn bytes(&self) -> usize {
        self.pairs.len() * self.pair_bytes()
    }

    /// Keys that are there, in an order without pattern, one behind the other in memory.
    pub fn keys_to_read(&self, round: usize, count: usize) -> Vec<Vec<u8>> {
        let draws = (0..count as u64).map(move |n| mix(n ^ (round as u64) << 40));
        let keys = draws.map(|n| &self.pairs[(n % self.pairs.len() as u64) as usize].0);
        keys.cloned().collect()
    }
}
