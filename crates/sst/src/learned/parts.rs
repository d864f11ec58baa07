//! What a learned index is put together from: as it was trained, or as it was read.

use super::group::Group;
use super::handles::FrameHead;
use super::model::Model;
use super::top::Top;

/// The parts, unchecked as far as they depend on each other.
#[derive(Debug)]
pub(super) struct Parts {
    /// Data blocks.
    pub blocks: u32,
    /// The bits of the bytes that occur in keys.
    pub occur: [u8; 32],
    pub top: Top,
    pub groups: Vec<Group>,
    pub models: Vec<Model>,
    /// Of all models, one behind the other.
    pub corrections: Vec<u8>,
    pub frames: Vec<FrameHead>,
    pub frame_bits: Vec<u8>,
}
