import{a,b}from"./part-chunk-Y4XUWX36.js";export{b as changeSides,a as outline};
