//! Files of unknown origin.

use thermocline_base::numbers::u64_at;
use thermocline_base::{Error, FileId, Result};
use thermocline_env::File;

use crate::blob::{BLOB_HEADER_LEN, encode_header};
use crate::format::FOOTER_LEN;
use crate::format::footer::Footer;
use crate::identity::Identity;

/// As which file a table names itself. Nothing of it but the footer is read, and that is only believed
/// as far as its own checksum goes: whoever opens or verifies it as this file finds out the rest.
///
/// # Errors
/// [`Error::Corruption`] if it does not end as a table does; [`Error::Unsupported`] if a newer version
/// wrote it; those of reading.
pub fn identity_of(file: &dyn File) -> Result<Identity> {
    let name = file.path().display().to_string();
    let len = file.len()?;
    let Some(at) = len.checked_sub(FOOTER_LEN as u64) else {
        let expected = format!("at least {FOOTER_LEN}");
        return Err(Error::corruption(
            "length of a table",
            name,
            0,
            expected,
            len,
        ));
    };
    let mut footer = [0; FOOTER_LEN];
    file.read_exact_at(&mut footer, at)?;
    let mut db_id = [0; 16];
    db_id.copy_from_slice(&footer[..16]);
    let identity = Identity::new(db_id, FileId(u64_at(&footer, 16)));
    let footer = Footer::decode(&footer, &identity, len);
    footer.map_err(|e| e.into_error(&name, at))?;
    Ok(identity)
}

/// Whether a file may be one of blobs that a writer of `identity` has made, were it only begun: its header is that
/// file's, or what a crash may have left of one, which is less or zeros.
///
/// # Errors
/// Those of reading.
pub fn is_blobs_of(file: &dyn File, identity: Identity) -> Result<bool> {
    let len = file.len()?.min(BLOB_HEADER_LEN as u64);
    let mut found = [0; BLOB_HEADER_LEN];
    let found = &mut found[..usize::try_from(len).unwrap_or(BLOB_HEADER_LEN)];
    file.read_exact_at(found, 0)?;
    let is_zero = found.iter().all(|&byte| byte == 0);
    Ok(is_zero || encode_header(&identity).starts_with(found))
}
