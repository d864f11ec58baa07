//! Names the fields of a learned index, as the drawing of its format has them.

struct Dump<'a> {
    bytes: &'a [u8],
    at: usize,
    fields: Vec<(usize, String)>,
}

impl Dump<'_> {
    fn field(&mut self, len: usize, name: impl Into<String>) {
        if len > 0 {
            self.fields.push((len, name.into()));
            self.at += len;
        }
    }

    fn byte(&mut self, name: &str) -> usize {
        let byte = self.bytes[self.at];
        self.field(1, format!("{name} {byte}"));
        usize::from(byte)
    }

    fn varint(&mut self, name: &str) -> usize {
        let (mut n, mut len) = (0u64, 0);
        loop {
            let byte = self.bytes[self.at + len];
            n |= u64::from(byte & 0x7f) << (7 * len);
            len += 1;
            if byte < 0x80 {
                break;
            }
        }
        self.field(len, format!("{name} {n}"));
        usize::try_from(n).unwrap()
    }

    fn text(&mut self, name: &str) {
        let len = self.varint(&format!("{name}: length"));
        let text = self.bytes[self.at..self.at + len]
            .escape_ascii()
            .to_string();
        self.field(len, format!("  {text}"));
    }

    fn line(&mut self) {
        self.varint("    base, zigzag");
        self.varint("    mantissa");
        self.byte("    exponent");
    }

    /// The bits of a group's corrections, and its blocks.
    fn group(&mut self) -> [usize; 2] {
        let blocks = self.varint("group: data blocks");
        self.varint("  lowest key: shared");
        self.text("  lowest key");
        self.text("  prefix");
        for _ in 0..self.varint("  positions") {
            self.varint("    smallest symbol");
            self.varint("    base");
        }
        let mut bits = 0;
        for _ in 0..self.varint("  models") {
            let blocks = self.varint("    data blocks");
            self.line();
            self.byte("    shift");
            bits += blocks * self.byte("    width");
        }
        [bits, blocks]
    }
}

/// The fields of the block at `at`, whose length is `len`.
pub fn root(bytes: &[u8], at: usize, len: usize) -> Vec<(usize, String)> {
    let mut dump = Dump {
        bytes,
        at,
        fields: Vec::new(),
    };
    dump.byte("index: kind");
    dump.byte("  level");
    dump.field(2, "  reserved");
    let blocks = dump.varint("  data blocks");
    dump.field(32, "  bytes that occur in keys");
    dump.text("top: beginning");
    for _ in 0..dump.varint("  pieces") {
        dump.varint("    groups");
        dump.line();
    }
    let (mut corrections, mut grouped) = (0, 0);
    for _ in 0..dump.varint("groups") {
        let [bits, blocks] = dump.group();
        corrections += bits;
        grouped += blocks;
    }
    assert_eq!(grouped, blocks);
    let mut lengths = 0;
    for frame in 0..blocks.div_ceil(64) {
        dump.varint("frame: shortest length");
        lengths += (1 + dump.byte("  width")) * (blocks - 64 * frame).min(64);
    }
    dump.field(corrections.div_ceil(8), "corrections");
    dump.field(lengths.div_ceil(8), "pages and lengths");
    dump.field(1, "index: compression");
    dump.field(1, "  kind of block");
    dump.field(2, "  reserved");
    dump.field(4, "  length of the payload");
    dump.field(4, "  CRC32C, seeded by place");
    assert_eq!(dump.at, at + len);
    dump.fields
}
