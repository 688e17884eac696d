// Gauss-Legendre quadrature: 8 panels of 16 points.
#pragma once

namespace fanin {

// Calls add(x, weight) for each point of [begin, end]. The weights are those of [-1, 1] in each
// panel: for quotients of integrals, which is what moments are.
template <class Add>
void gauss_legendre(double begin, double end, Add add) {
  constexpr int PANELS = 8;
  constexpr int POINTS = 8;  // and their mirror images
  constexpr double NODES[POINTS] = {
      0.0950125098376374402, 0.2816035507792589132, 0.4580167776572273863, 0.6178762444026437484,
      0.7554044083550030339, 0.8656312023878317439, 0.9445750230732325761, 0.9894009349916499326};
  constexpr double WEIGHTS[POINTS] = {
      0.1894506104550684963, 0.1826034150449235889, 0.1691565193950025382, 0.1495959888165767321,
      0.1246289712555338720, 0.0951585116824927848, 0.0622535239386478929, 0.0271524594117540949};
  const double half = 0.5 * (end - begin) / PANELS;
  for (int panel = 0; panel < PANELS; ++panel) {
    const double middle = begin + (2 * panel + 1) * half;
    for (int i = 0; i < 2 * POINTS; ++i) {
      add(middle + half * (i < POINTS ? -NODES[i] : NODES[i - POINTS]), WEIGHTS[i % POINTS]);
    }
  }
}

}  // namespace fanin
