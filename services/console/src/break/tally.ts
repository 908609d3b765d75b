/** Counts the events of a log by their generations, which have no gaps: each must come once. */
export class Tally {
  events = 0;
  lost = 0;
  repeated = 0;
  private last = 0;

  take(generation: number): void {
    if (generation <= this.last) {
      this.repeated += 1;
      return;
    }
    this.lost += generation - this.last - 1;
    this.last = generation;
    this.events += 1;
  }
}
