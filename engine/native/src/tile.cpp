// The tiles of every size, compiled once.
#include "tile.h"

namespace mindspec {

const std::array<Tile, TILE_ROWS> NARROW_TILES[3] = {tiles_of<2, 0>(std::make_integer_sequence<int, TILE_ROWS>{}),
                                                     tiles_of<2, 1>(std::make_integer_sequence<int, TILE_ROWS>{}),
                                                     tiles_of<2, 2>(std::make_integer_sequence<int, TILE_ROWS>{})};
const std::array<Tile, WIDE_ROWS> WIDE_TILES = tiles_of<4, 2>(std::make_integer_sequence<int, WIDE_ROWS>{});

}  // namespace mindspec
