// Places for runs, shared by all lanes of a worker, which take turns for them.

/** Turns that a lane gets, in proportion to others that have runs waiting. */
const WEIGHTS = { high: 9, normal: 3, low: 1 };

export class Slots {
  #waiting = []; // {lane, grant}
  #turn = 0;

  constructor(count) {
    this.left = count;
    this.lanes = 0;
  }

  /** Whether there are fewer places left than lanes that may want one. */
  get scarce() {
    return this.left < this.lanes - 1;
  }

  /** Returns when the lane has got a place: the one next that has had the fewest turns. */
  async take(lane) {
    // One that has long had nothing to do has saved up nothing.
    lane.turn = Math.max(lane.turn ?? 0, this.#turn);
    const granted = new Promise((grant) => this.#waiting.push({ lane, grant }));
    this.#hand();
    await granted;
  }

  giveBack() {
    this.left += 1;
    this.#hand();
  }

  #hand() {
    while (this.left > 0 && this.#waiting.length > 0) {
      this.#waiting.sort((one, other) => one.lane.turn - other.lane.turn);
      const { lane, grant } = this.#waiting.shift();
      this.left -= 1;
      this.#turn = lane.turn;
      lane.turn += 1 / (WEIGHTS[lane.consumer.split("@")[2]] ?? WEIGHTS.normal);
      grant();
    }
  }
}
