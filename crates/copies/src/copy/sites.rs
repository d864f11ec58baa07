//! Every place at which a copy of a store makes something durable, apart from its tables and manifest.

thermocline_base::sites! {
    /// The note that a copy is being made, with its name.
    COPY_NOTED = "copy: noted";
    /// The bytes of a file that was copied, not its name.
    COPY_WRITTEN = "copy: file written";
    /// The names of all files of a backup.
    COPY_NAMED = "copy: files named";
    /// The name of a backup's list: the backup itself.
    BACKUP_NAMED = "copy: backup named";
    /// That a copy which failed is no database.
    COPY_WITHDRAWN = "copy: withdrawn";
}
