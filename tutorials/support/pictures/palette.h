#pragma once
// What colours mean, on all figures of all chapters.

namespace tutorial {

/// \name Memory
/// \{
inline constexpr const char* kParameterColour = "#56b4e9";
inline constexpr const char* kGradientColour = "#e69f00";
inline constexpr const char* kStateColour = "#6fbf8b";
inline constexpr const char* kActivationColour = "#b9a3d6";
inline constexpr const char* kMessageColour = "#cc79a7";    ///< and gathered parameters
inline constexpr const char* kTransientColour = "#e4e4e4";  ///< what is there for a moment
/// \}

/// \name Time: what a rank computes and what it sends. The second of a pair is that of a rank's
/// other chunk.
/// \{
inline constexpr const char* kForwardColours[] = {"#7db7e0", "#c3def2"};
inline constexpr const char* kBackwardColours[] = {"#8fce9f", "#c6e7ce"};
inline constexpr const char* kWeightGradientColours[] = {"#d9d7a0", "#eceacb"};
inline constexpr const char* kGatherColour = "#e3a6c8";
inline constexpr const char* kReduceColour = "#f0a860";
inline constexpr const char* kOtherColour = "#cccccc";
/// \}

/// Four ranks, and things of which it matters only that they are different.
inline constexpr const char* kRankColours[] = {"#7db7e0", "#f0a860", "#8fce9f", "#e3a6c8"};

}  // namespace tutorial
