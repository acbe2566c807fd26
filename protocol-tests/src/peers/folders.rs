//! Where foreign programs live: in the target folder, shared by all tests and guarded by a lock.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::Failure;

/// Returns `peers/<name>` in the target folder, and runs `fill` on it if no earlier call has finished filling it.
///
/// Parallel tests, also of other processes, wait for each other. A folder that was left half-filled is filled anew.
///
/// # Errors
/// If it cannot be made or `fill` fails.
pub fn filled_once(
    name: &str,
    fill: impl FnOnce(&Path) -> Result<(), Failure>,
) -> Result<PathBuf, Failure> {
    let peers = target_folder()?.join("peers");
    fs::create_dir_all(&peers)?;
    let lock = File::create(peers.join(format!("{name}.lock")))?;
    flock(&lock, FlockOperation::LockExclusive)?;

    let folder = peers.join(name);
    let complete = folder.join(".complete");
    if !complete.exists() {
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir(&folder)?;
        fill(&folder)?;
        File::create(complete)?;
    }
    Ok(folder)
}

/// The target folder this test was built into: the nearest folder above the program in which cargo notes its compiler. (Its
/// `CACHEDIR.TAG` is not there if somebody else made the folder.)
///
/// # Errors
/// If this program is in no target folder.
pub fn target_folder() -> Result<PathBuf, Failure> {
    let program = std::env::current_exe()?;
    program
        .ancestors()
        .find(|folder| folder.join(".rustc_info.json").exists())
        .map(Path::to_path_buf)
        .ok_or_else(|| format!("{} is not in a cargo target folder", program.display()).into())
}

/// A file of this package's `peers` folder.
pub(super) fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("peers")
        .join(name)
}
