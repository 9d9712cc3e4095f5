// The tiles for int8 weights of every size, compiled once.
#include "tile_int8.h"

namespace mindspec {

const std::array<TileInt8, TILE_ROWS> INT8_TILES[2] = {int8_tiles_of<0>(std::make_integer_sequence<int, TILE_ROWS>{}),
                                                       int8_tiles_of<1>(std::make_integer_sequence<int, TILE_ROWS>{})};

}  // namespace mindspec
