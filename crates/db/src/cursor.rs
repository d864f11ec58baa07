//! Cursors: positions among the entries of a column family.

use thermocline_base::Result;
use thermocline_engine::Operation;

/// A position among the entries of one column family, at one moment of the store: writes made after the cursor do not
/// show. It lends the key and value at its position, without allocating.
///
/// All moves are in the family's order: first, next, at or after. Where keys descend ([`crate::CfOptions::reverse`]),
/// the first key is the largest, and a key at or after another one is not above it.
///
/// A new cursor is at no key, and one that has moved past either end is at none, either. Only a seek leads from there to a
/// key; [`Cursor::next`] and [`Cursor::prev`] do not.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let db = thermocline::Db::open(folder.path().join("db"), thermocline::Options::default())?;
/// db.put("a", "1")?;
/// db.put("c", "3")?;
/// let mut cursor = db.cursor()?;
/// assert!(!cursor.valid() && !cursor.next()?);
/// assert!(cursor.seek(b"b")?);
/// assert_eq!((cursor.key(), cursor.value()), (&b"c"[..], &b"3"[..]));
/// assert!(cursor.prev()? && cursor.key() == b"a");
/// assert!(!cursor.prev()? && !cursor.next()?); // past the end it is at no key
/// # Ok::<(), thermocline::Error>(())
/// ```
#[derive(Debug)]
pub struct Cursor(pub(crate) thermocline_engine::Cursor);

impl Cursor {
    /// The same cursor, which reads no values from now on: [`Cursor::value`] is empty. See [`Scan::keys_only`](crate::Scan::keys_only).
    #[must_use = "it is the cursor"]
    pub fn keys_only(self) -> Cursor {
        Cursor(self.0.keys_only())
    }

    /// Moves to the first key at or after `key`; returns whether there is one.
    ///
    /// # Errors
    /// [`crate::Error::Corruption`] naming file or region and offset; [`crate::Error::Closed`]; [`crate::Error::Io`]
    /// if a file cannot be read; [`crate::Error::InvalidArgument`] for operands that the family's merge operator
    /// cannot merge, and for a family that was dropped while the cursor was being made. All moves have these errors.
    pub fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.timed(Operation::Seek, |cursor| cursor.seek(key))
    }

    /// Moves to the last key at or before `key`; returns whether there is one.
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    pub fn seek_for_prev(&mut self, key: &[u8]) -> Result<bool> {
        self.timed(Operation::Seek, |cursor| cursor.seek_for_prev(key))
    }

    /// Moves to the first key.
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    pub fn seek_to_first(&mut self) -> Result<bool> {
        self.timed(Operation::Seek, |cursor| cursor.seek_to_first())
    }

    /// Moves to the last key.
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    pub fn seek_to_last(&mut self) -> Result<bool> {
        self.timed(Operation::Seek, |cursor| cursor.seek_to_last())
    }

    /// Moves to the next key; returns whether there is one. Past the last key the cursor is not valid, and one that is not
    /// valid stays so.
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    #[expect(
        clippy::should_implement_trait,
        reason = "a cursor lends; it is no iterator"
    )]
    pub fn next(&mut self) -> Result<bool> {
        self.timed(Operation::Step, |cursor| cursor.next())
    }

    /// Moves to the key before; returns whether there is one. Before the first key the cursor is not valid, and one that is
    /// not valid stays so.
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    pub fn prev(&mut self) -> Result<bool> {
        self.timed(Operation::Step, |cursor| cursor.prev())
    }

    fn timed<T>(
        &mut self,
        operation: Operation,
        work: impl FnOnce(&mut thermocline_engine::Cursor) -> T,
    ) -> T {
        let begun = self.0.latencies().begin();
        let done = work(&mut self.0);
        self.0.latencies().end(operation, begun);
        done
    }

    /// Whether the cursor is at an entry.
    pub fn valid(&self) -> bool {
        self.0.valid()
    }

    /// The key here; empty where the cursor is not valid.
    pub fn key(&self) -> &[u8] {
        self.0.key()
    }

    /// The value here; empty where the cursor is not valid, or has keys only.
    pub fn value(&self) -> &[u8] {
        self.0.value()
    }

    /// Moves to what is visible now, and to no key. This is cheaper than a new cursor, and lets go of what the cursor
    /// held of the past.
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] if the cursor's column family has been dropped; [`crate::Error::Closed`] if the database
    /// was closed. The cursor stays as it was, and reads on.
    pub fn refresh(&mut self) -> Result<()> {
        self.0.refresh()
    }
}
