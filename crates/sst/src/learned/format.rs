//! The bytes of a learned index: the payload of the index root of a table that has one. `varint` is as in
//! `crate::format`.
//!
//! ```text
//!       0    4  head: kind of index (2: learned), level 0, 2 reserved, 0
//!       varint  number of data blocks, at least one
//!           32  which bytes occur in keys: byte b in bit b % 8 of byte b / 8
//!
//!               the top model
//!       varint  length of a beginning, the beginning
//!       varint  number of pieces; each:
//!         varint  groups, at least one; all together: all groups
//!           line
//!
//!       varint  number of groups; each:
//!         varint  data blocks, at least one; all together: all data blocks
//!         varint  how many bytes of its lowest key it shares with the group's before
//!         varint  length of the lowest key's rest, the rest
//!         varint  length of a prefix, the prefix
//!         varint  number of positions, at most 64; each:
//!           varint  smallest symbol, 0 to 256
//!           varint  base: how many symbols from there on, at least one, up to symbol 256
//!         varint  number of models; each:
//!           varint  data blocks, 1 to 65,536; all together: those of the group without its first
//!             line
//!                1  shift of corrections
//!                1  width of corrections, at most 56 bits
//!
//!               frames, each of 64 data blocks, the last one of those that are left; each:
//!         varint  shortest length of a block
//!              1  width of lengths, at most 22 bits
//!
//!               corrections of all models, one behind the other, zeros up to a whole byte
//!               of each data block: 1 bit, and the length above its frame's shortest, in as many
//!               bits as the frame says; zeros up to a whole byte
//!
//!  line: varint base, zigzag (2n for n, -2n - 1 for -n); varint mantissa, less than 2^32;
//!        1 exponent, signed
//! ```
//!
//! Bits are numbered from the lowest bit of the first byte. The bit of a data block says that it begins
//! at the first multiple of 4096 behind the block before; else it begins where that one ends, and the first
//! one at 0.

use thermocline_base::limits::KEY_LEN_MAX;
use thermocline_base::numbers::len_of;
use thermocline_base::varint::{put_varint, varint};

use super::bits::Bits;
use super::code::{Code, POSITIONS_MAX, Position, SYMBOLS_MAX};
use super::group::Group;
use super::handles::{self, FrameHead};
use super::line::Line;
use super::model::Model;
use super::parts::Parts;
use super::top::{Piece, Top};
use crate::block::build::common;
use crate::format::coding::{Fields, Unreadable, damaged};
use crate::format::{INDEX_HEAD, INDEX_LEARNED, LEARNED_LEN_MAX, TRAILER_LEN};

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_line(out: &mut Vec<u8>, line: &Line) {
    put_varint(out, ((line.base << 1) ^ (line.base >> 63)).cast_unsigned());
    put_varint(out, u64::from(line.mantissa));
    out.push(line.exponent.cast_unsigned());
}

/// The payload.
pub(super) fn encode(parts: &Parts) -> Vec<u8> {
    let mut out = vec![INDEX_LEARNED, 0, 0, 0];
    put_varint(&mut out, u64::from(parts.blocks));
    out.extend_from_slice(&parts.occur);
    put_bytes(&mut out, parts.top.prefix());
    put_varint(&mut out, parts.top.pieces().len() as u64);
    for piece in parts.top.pieces() {
        put_varint(&mut out, u64::from(piece.groups));
        put_line(&mut out, &piece.line);
    }
    put_varint(&mut out, parts.groups.len() as u64);
    let mut before: &[u8] = &[];
    for group in &parts.groups {
        put_varint(&mut out, u64::from(group.blocks));
        let shared = common(before, &group.low);
        put_varint(&mut out, shared as u64);
        put_bytes(&mut out, &group.low[shared..]);
        before = &group.low;
        put_bytes(&mut out, group.code.prefix());
        put_varint(&mut out, group.code.positions().len() as u64);
        for Position { low, base } in group.code.positions() {
            put_varint(&mut out, u64::from(low));
            put_varint(&mut out, u64::from(base));
        }
        put_varint(&mut out, group.models.len() as u64);
        for model in &parts.models[group.models.clone()] {
            put_varint(&mut out, u64::from(model.blocks));
            put_line(&mut out, &model.line);
            out.extend_from_slice(&[model.shift, model.width]);
        }
    }
    for frame in &parts.frames {
        put_varint(&mut out, u64::from(frame.shortest));
        out.push(frame.width);
    }
    out.extend_from_slice(&parts.corrections);
    out.extend_from_slice(&parts.frame_bits);
    out
}

/// Bytes that the lowest keys of all groups may take: what an index takes in memory is bounded, whoever wrote it. The writer
/// reads what it has written, and takes an index of the other kind for what is refused here.
const LOWS_BYTES_MAX: usize = 32 << 20;

/// Reads the parts, of a table whose data blocks end at `data_end`: each can be, and their numbers agree.
pub(super) fn decode(bytes: &[u8], data_end: u64) -> Result<Parts, Unreadable> {
    let mut reader = Reader {
        fields: Fields { bytes, at: 0 },
    };
    if bytes.len() > LEARNED_LEN_MAX {
        return Err(reader.wrong("length", LEARNED_LEN_MAX, bytes.len()));
    }
    reader.head()?;
    let blocks = reader.number("number of data blocks")?;
    // Each has a trailer in the file.
    let most = data_end / TRAILER_LEN as u64;
    if blocks == 0 || u64::from(blocks) > most {
        return Err(reader.wrong("number of data blocks", format!("1 to {most}"), blocks));
    }
    let occur = reader.fields.array()?;
    let top = reader.top()?;
    let (mut groups, mut models) = (Vec::new(), Vec::new());
    let (mut first, mut low, mut at) = (0, Vec::new(), 0);
    let mut lows = 0;
    for _ in 0..reader.number("number of groups")? {
        let group = reader.group(first, &mut low, &mut models, &mut at)?;
        first = group.end();
        // Few bytes stand for a long key that is nearly the one before.
        lows += group.low.len();
        if lows > LOWS_BYTES_MAX {
            return Err(reader.wrong("lowest keys of all groups", LOWS_BYTES_MAX, lows));
        }
        groups.push(group);
    }
    if first != blocks {
        return Err(reader.wrong("data blocks of all groups", blocks, first));
    }
    let in_top: u64 = top.pieces().iter().map(|p| u64::from(p.groups)).sum();
    if in_top != groups.len() as u64 {
        return Err(reader.wrong("groups of the top model", groups.len(), in_top));
    }
    let mut frames = Vec::new();
    for _ in 0..handles::frames_of(blocks) {
        frames.push(FrameHead {
            shortest: reader.number("shortest length of a block")?,
            width: reader.fields.u8()?,
        });
    }
    let corrections = reader.bits(at)?;
    let frame_bits = reader.bits(handles::bits_of_all(&frames, blocks))?;
    reader.fields.end()?;
    Ok(Parts {
        blocks,
        occur,
        top,
        groups,
        models,
        corrections,
        frames,
        frame_bits,
    })
}

struct Reader<'a> {
    fields: Fields<'a>,
}

impl<'a> Reader<'a> {
    fn wrong(&self, what: &str, expected: impl ToString, got: impl ToString) -> Unreadable {
        let what = format!("{what} in a learned index");
        damaged(what, self.fields.at, expected, got)
    }

    fn head(&mut self) -> Result<(), Unreadable> {
        let head: [u8; INDEX_HEAD] = self.fields.array()?;
        if head != [INDEX_LEARNED, 0, 0, 0] {
            let got = format!("{head:?}");
            return Err(self.wrong("head", format!("{INDEX_LEARNED}, and zeros"), got));
        }
        Ok(())
    }

    fn varint(&mut self, what: &str) -> Result<u64, Unreadable> {
        let Fields { bytes, at } = &mut self.fields;
        varint(bytes, at).ok_or_else(|| self.wrong(what, "one", "none"))
    }

    fn number(&mut self, what: &str) -> Result<u32, Unreadable> {
        let number = self.varint(what)?;
        u32::try_from(number).map_err(|_| self.wrong(what, "less than 2^32", number))
    }

    fn bytes(&mut self, what: &str) -> Result<&'a [u8], Unreadable> {
        let len = self.number(what)?;
        self.fields.take(len_of(len))
    }

    fn bits(&mut self, bits: u64) -> Result<Vec<u8>, Unreadable> {
        let len = Bits::bytes_of(bits);
        let len = usize::try_from(len).map_err(|_| self.wrong("bits", "less", len))?;
        Ok(self.fields.take(len)?.to_vec())
    }

    fn line(&mut self) -> Result<Line, Unreadable> {
        let base = self.varint("base of a line")?;
        Ok(Line {
            base: (base >> 1).cast_signed() ^ -(base & 1).cast_signed(),
            mantissa: self.number("mantissa of a line")?,
            exponent: self.fields.u8()?.cast_signed(),
        })
    }

    fn top(&mut self) -> Result<Top, Unreadable> {
        let prefix = self.bytes("beginning of groups")?;
        let mut pieces = Vec::new();
        for _ in 0..self.number("number of pieces")? {
            let groups = self.number("groups of a piece")?;
            let line = self.line()?;
            pieces.push(Piece { groups, line });
        }
        Top::new(prefix, &pieces).ok_or_else(|| self.wrong("pieces", "lines", "others"))
    }

    /// The group whose first block is `first`; `low` is the lowest key of the one before, and then its own.
    fn group(
        &mut self,
        first: u32,
        low: &mut Vec<u8>,
        models: &mut Vec<Model>,
        at: &mut u64,
    ) -> Result<Group, Unreadable> {
        let blocks = self.number("data blocks of a group")?;
        let end = first.checked_add(blocks);
        let Some(end) = end.filter(|_| blocks > 0) else {
            return Err(self.wrong("data blocks of a group", "at least one", blocks));
        };
        self.low(first == 0, low)?;
        let code = self.code()?;
        let before = models.len();
        let mut next = first + 1;
        for _ in 0..self.number("number of models")? {
            let model = self.model(next, *at)?;
            next = next.saturating_add(model.blocks);
            *at = at.saturating_add(model.bits());
            models.push(model);
        }
        if next != end {
            return Err(self.wrong("blocks of all models of a group", end, next));
        }
        Ok(Group {
            first,
            blocks,
            low: low.as_slice().into(),
            code,
            models: before..models.len(),
        })
    }

    /// Lowest keys ascend, and that of the first group is empty.
    fn low(&mut self, is_first: bool, low: &mut Vec<u8>) -> Result<(), Unreadable> {
        let what = "lowest key of a group";
        let shared = len_of(self.number(what)?);
        let rest = self.bytes(what)?;
        let ascends = match is_first {
            true => shared == 0 && rest.is_empty(),
            false => shared <= low.len() && *rest > low[shared..],
        };
        if !ascends {
            return Err(self.wrong(what, "behind the one before", "another"));
        }
        low.truncate(shared);
        low.extend_from_slice(rest);
        if low.len() > KEY_LEN_MAX {
            return Err(self.wrong(what, KEY_LEN_MAX, low.len()));
        }
        Ok(())
    }

    fn code(&mut self) -> Result<Code, Unreadable> {
        let prefix = self.bytes("prefix of a group")?;
        let count = len_of(self.number("number of positions")?);
        if count > POSITIONS_MAX {
            return Err(self.wrong("number of positions", POSITIONS_MAX, count));
        }
        let mut positions = Vec::with_capacity(count);
        for _ in 0..count {
            let (low, base) = (self.varint("symbol")?, self.varint("base")?);
            let symbols = u64::from(SYMBOLS_MAX);
            let fits = low < symbols && (1..=symbols - low.min(symbols)).contains(&base);
            let narrow = u16::try_from(low).ok().zip(u16::try_from(base).ok());
            let Some((low, base)) = narrow.filter(|_| fits) else {
                let got = format!("{base} from {low} on");
                return Err(self.wrong("symbols of a position", "1 to 257", got));
            };
            positions.push(Position { low, base });
        }
        Code::new(prefix, &positions).ok_or_else(|| self.wrong("code of a group", "small", "large"))
    }

    fn model(&mut self, first: u32, at: u64) -> Result<Model, Unreadable> {
        let blocks = self.number("data blocks of a model")?;
        let line = self.line()?;
        let [shift, width] = self.fields.array()?;
        let model = Model {
            first,
            blocks,
            line,
            shift,
            width,
            at,
        };
        let checked = model.checked();
        checked.ok_or_else(|| self.wrong("model", "within the numbers", format!("{model:?}")))
    }
}
