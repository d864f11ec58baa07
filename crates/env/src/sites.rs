//! The crash points of the simulated file system that callers do not name themselves: changes of
//! names, which become durable only with a later sync of their folder.

thermocline_base::sites! {
    /// A file has a name.
    NAME_CREATED = "env: name created";
    /// A file has one more name.
    NAME_LINKED = "env: name linked";
    /// A file has another name.
    NAME_CHANGED = "env: name changed";
    /// A file has no name any more.
    NAME_REMOVED = "env: name removed";
    /// A folder exists, durably.
    FOLDER_CREATED = "env: folder created";
}
