//! A path for each rank.

use std::path::PathBuf;

use planfetch_plan::World;

/// Makes a path of `template`, with the rank in place of `{rank}` and the number of ranks in place of `{world_size}`.
///
/// For ranks that have a cache directory each, as on disks of their own. Ranks of one machine that share a directory
/// need no template.
///
/// # Example
///
/// ```
/// use planfetch::prelude::*;
/// use planfetch::rank_path;
///
/// let world = World { rank: 3, world_size: 8 };
/// assert_eq!(rank_path("/mnt/nvme{rank}/planfetch", world), std::path::Path::new("/mnt/nvme3/planfetch"));
/// ```
#[must_use]
pub fn rank_path(template: &str, world: World) -> PathBuf {
    let path = template.replace("{rank}", &world.rank.to_string());
    PathBuf::from(path.replace("{world_size}", &world.world_size.to_string()))
}
